"""The optional parameters of each method, and of connecting; what is left out is not sent.

One TypedDict serves both clients. `timeout` (seconds, None = no bound) and `on_progress` are the
names that stay here; everything else goes to the daemon as it is.
"""

from sessiond_client.connect_options import *  # noqa: F403 - their public place is here
from sessiond_client.generated.options import *  # noqa: F403 - their public place is here
