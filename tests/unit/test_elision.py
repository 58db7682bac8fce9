"""Elided answers of transcripts: what is shown is checked, what is not shown may be anything."""

from __future__ import annotations

import pytest

from sessiond.testing.elision import fits

BODY = '{"id":1,"result":{"a":1.50,"b":"… x","c":[{"d":null},2],"e":true}}'


@pytest.mark.parametrize(
    "shown",
    [
        '{"id":1,"result":{"a":1.50,…}}',
        '{"id":1,"result":{"b":"… x","e":true,…}}',
        '{"id":1,"result":{…,"c":[{"d":null},2]}}',
        '{"id":1,"result":{"a":1.50,"b":"… x","c":[{…},2],"e":true}}',
        "{…}",
    ],
)
def test_an_elided_answer_fits_what_has_its_members(shown: str) -> None:
    assert fits(shown, BODY)


@pytest.mark.parametrize(
    "shown",
    [
        BODY,
        '{"id":1,"result":{"a":1.5,…}}',
        '{"id":1,"result":{"a":"1.50",…}}',
        '{"id":1,"result":{"b":"x",…}}',
        '{"id":1,"result":{"e":1,…}}',
        '{"id":1,"result":{"x":null,…}}',
        '{"id":1,"result":{"e":true,"a":1.50,…}}',
        '{"id":1,"result":{"c":[2],…}}',
        '{"id":1,"result":{"c":[{…}],…}}',
        '{"id":1,…,"more":2}',
        '{"result":{"a":1.50,…}}',
        "{…",
        "…",
    ],
)
def test_an_elided_answer_does_not_fit_what_differs_in_what_is_shown(shown: str) -> None:
    assert not fits(shown, BODY)
