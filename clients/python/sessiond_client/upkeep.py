"""The types of results about sessions found, and their files."""

from sessiond_client.generated.results import *  # noqa: F403 - their public place is here
