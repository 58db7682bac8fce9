"""The optional parameters of the methods about sessions as a whole."""

from sessiond_client.generated.options import *  # noqa: F403 - their public place is here
