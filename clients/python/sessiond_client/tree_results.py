"""The types of results about heads, trees and contexts."""

from sessiond_client.generated.results import *  # noqa: F403 - their public place is here
