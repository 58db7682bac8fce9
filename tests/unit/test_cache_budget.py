"""The common bound of all sessions' caches; the least recently asked session loses its caches."""

from __future__ import annotations

from sessiond.service.context.cache_budget import CacheBudget
from sessiond.service.context.context_cache import ContextCache, build_context
from sessiond.service.context.view_cache import ViewCache
from sessiond.session.providers.shapes import View
from tests.kit.documents import native
from tests.kit.sessions import stored_message

VIEW = View(shape="openai")


def test_the_session_that_was_asked_longest_ago_gives_way() -> None:
    session = native(stored_message("n1", None, content="x" * 1000))
    size = build_context(session, 1).size
    caches = CacheBudget(bytes_max=3 * size)
    first, *others = (ContextCache(caches) for _ in range(4))
    for cache in (first, *others[:2]):
        assert cache.build_now(session, 1) is not None
    assert caches.held_bytes == 3 * size
    # After this request the first cache is not the least recently asked one any more.
    assert first.get(1) is not None
    assert others[2].build_now(session, 1) is not None
    assert [cache.get(1) is not None for cache in (first, *others)] == [True, False, True, True]
    assert caches.held_bytes == 3 * size
    # The cache makes an equal context again, and keeps it.
    again = others[0].build_now(session, 1)
    assert again is not None
    assert list(again.messages()) == list(build_context(session, 1).messages())
    assert others[0].get(1) is again


def test_views_give_way_to_contexts_and_contexts_to_views() -> None:
    session = native(stored_message("n1", None, content="x" * 1000))
    context = build_context(session, 1)
    caches = CacheBudget(bytes_max=context.size)
    views, cache = ViewCache(session, caches), ContextCache(caches)
    assert views.now(context, VIEW) is not None
    assert cache.build_now(session, 1) is not None
    assert views.get((1, VIEW)) is None
    assert views.now(context, VIEW) is not None
    assert cache.get(1) is None


def test_what_is_larger_than_the_bound_is_kept_while_it_is_the_one_in_use() -> None:
    large, small = (
        native(stored_message("n1", None, content="x" * 5000)),
        native(stored_message("n1", None, content="y")),
    )
    caches = CacheBudget(bytes_max=1000)
    one, other = ContextCache(caches), ContextCache(caches)
    assert one.build_now(large, 1) is not None
    assert one.get(1) is not None
    assert other.build_now(small, 1) is not None
    assert one.get(1) is None
    assert caches.held_bytes == build_context(small, 1).size


def test_a_session_that_is_let_go_counts_no_longer() -> None:
    caches = CacheBudget()
    cache = ContextCache(caches)
    assert cache.build_now(native(stored_message("n1", None, content="x")), 1) is not None
    assert caches.held_bytes
    caches.forget(cache)
    caches.forget(cache)
    assert caches.held_bytes == 0
