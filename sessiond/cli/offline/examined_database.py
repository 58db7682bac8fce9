"""Checks of `doctor` on the configured database."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sessiond.cli.connect.target import layout_of
from sessiond.cli.offline.examination import Finding
from sessiond.cli.options import DaemonPlace
from sessiond.config.config_file import BadConfiguration
from sessiond.config.configuration import Sources, load


def examine_database(place: DaemonPlace) -> Iterator[Finding]:
    """Yield a finding for each fact about the database; none without a configured one."""
    try:
        configuration, _ = load(Sources(os.environ, place.config))
    except (BadConfiguration, OSError):
        return  # the check of the configuration says so
    if configuration.store is None:
        return
    from sessiond.daemon.stores import database_facts

    try:
        for fact in database_facts(configuration, layout_of(place).profile):
            yield Finding("database", ok=fact.next is None, what=fact.what, next=fact.next)
    except BadConfiguration as error:
        yield Finding("database", ok=False, what=str(error), next="correct the configuration")
