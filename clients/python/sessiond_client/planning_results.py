"""The types of results about the size of a context and plans to make it smaller."""

from sessiond_client.generated.results import *  # noqa: F403 - their public place is here
