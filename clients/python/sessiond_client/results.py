"""The types of results, and how a result of any type is read.

Law: lenient. A field that a newer daemon adds is ignored, one that an older lacks has a default; a
program that needs more than is here uses `client.call`. Entries and messages are kept as the bytes
that came and decoded at the first use.
"""

from sessiond_client.generated.messages import Present as Present
from sessiond_client.generated.results import *  # noqa: F403 - their public place is here
from sessiond_client.wire import READ_ANY as READ_ANY
from sessiond_client.wire import Reader as Reader
