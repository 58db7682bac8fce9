"""The types of results about sessions brought together."""

from sessiond_client.generated.results import *  # noqa: F403 - their public place is here
