"""Every bound of the daemon, with what happens when it is reached.

A bound has one owner (named in its comment) and one overflow policy. Sizes are
bytes, times are seconds unless the name says otherwise.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# rpc: one message. NDJSON answers too_large and goes on at the next line;
# Content-Length skips the body.
FRAME_BYTES_MAX: Final = 32 * 1024 * 1024
# rpc: header block of a Content-Length frame; more closes the connection.
HEADER_BYTES_MAX: Final = 8 * 1024
# rpc: arrays and objects inside each other; more is a parse_error. Well below what the
# decoder can do on any stack, so that what was taken can always be read back.
NESTING_MAX: Final = 512
# rpc: an id of a request that is longer comes back with the answer, but is left out of the
# `origin` that others are told with every event.
ORIGIN_ID_BYTES_MAX: Final = 256
# methods: the name a client gives itself, told to others in the same place.
CLIENT_ID_CHARS_MAX: Final = 128
# methods: and the name it has among those who are present; a longer one is cut.
CLIENT_NAME_CHARS_MAX: Final = 128
# rpc: a frame with half surrogate pairs that is looked at for its id, so that its sender hears what
# is wrong under it; in a longer one they are a parse_error without an id.
HALVES_BYTES_MAX: Final = 1024 * 1024
# rpc: members of one batch; more is too_large.
BATCH_MEMBERS_MAX: Final = 100

# transports: one read. 256 KiB reads allocate and unmap each time (perf-goals).
READ_BYTES: Final = 64 * 1024
# transports: what may wait for one connection's socket. Events beyond it demote
# the subscription to replay; answers beyond it stop the reading.
OUTBOX_BYTES_MAX: Final = 1024 * 1024
# transports: messages of one connection that are dispatched before others have their turn.
TURN_MESSAGES_MAX: Final = 512
# transports: requests of one connection that wait for an answer, and their bytes; more stops the
# reading.
IN_FLIGHT_MAX: Final = 1024
IN_FLIGHT_BYTES_MAX: Final = FRAME_BYTES_MAX
# rpc: requests of the daemon that one client has not answered; it is not asked more then.
OUTGOING_MAX: Final = 64
# service/byte_budget: bytes that all connections together make the daemon keep: halves of frames,
# requests without an answer, what waits for sockets. Beyond it large frames and large answers to
# questions are overloaded; events have half of it and then stay in the log.
BUFFERED_BYTES_MAX: Final = 512 * 1024 * 1024
# rpc: an answer to a question up to this size is given however much waits already.
SMALL_ANSWER_BYTES: Final = 64 * 1024
# transports: open connections, all of one user, and those of one process among them; one more is
# told that it is overloaded and closed.
CONNECTIONS_MAX: Final = 4096
CONNECTIONS_PER_PROCESS_MAX: Final = 2048
# transports: connections have at most this part of the descriptors that the process may have, and one
# process this part of the connections: session files, the catalog and searches keep the rest.
CONNECTION_DESCRIPTORS_PART: Final = 2
PROCESS_CONNECTIONS_PART: Final = 2
# transports: how often refused connections are logged.
REFUSALS_LOGGED_SECONDS: Final = 10.0
# service: reads in worker threads that one connection has under way; the others wait for them.
READS_PER_CONNECTION_MAX: Final = 4
# service: sessions that one connection keeps open by watching, leasing or being present; one more
# is overloaded.
SESSIONS_PER_CONNECTION_MAX: Final = 256
# transports: how long a start waits for whoever changes the sockets of the same folder.
FOLDER_LOCK_SECONDS: Final = 5.0
# transports: a socket that takes no byte this long while an answer waits is closed.
STUCK_SOCKET_SECONDS: Final = 30.0

# service/actor/inbox: commands that wait for one session's writer; more is overloaded.
INBOX_COMMANDS_MAX: Final = 8192
# service/actor/inbox: bytes of entries that wait there; more is overloaded, but for a single command.
INBOX_BYTES_MAX: Final = 128 * 1024 * 1024
# service/actor/inbox: entries and bytes that one write and one fdatasync carry.
BATCH_ENTRIES_MAX: Final = 1024
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
# service: open session files; the least recently used idle one is unloaded, else overloaded.
OPEN_SESSIONS_MAX: Final = 512
# service/registry/eviction: descriptors of an open session; and those that are left to connections, lists and
# copies, or this part of all there may be if that is less: idle sessions give way, else overloaded.
SESSION_DESCRIPTORS: Final = 2
SPARE_DESCRIPTORS: Final = 16
SPARE_DESCRIPTORS_PART: Final = 8
# service: sessions whose batches are on their way to the disk at the same time; the others wait.
WRITER_THREADS_MAX: Final = 32
# service: half a line of another program is closed with a newline when it has not grown for this
# long, or when an append has waited for it this long altogether; and how often it is looked at then.
HALF_LINE_SECONDS: Final = 1.0
HALF_LINE_WAIT_SECONDS: Final = 3.0
HALF_LINE_LOOK_SECONDS: Final = 0.02
# journal: bytes of what others wrote that are read, synced and told at a time, or one longer line.
INTAKE_BYTES: Final = 1024 * 1024
# service: how often a batch is made again because others wrote first; then theirs comes before it
# although it was made without, or is refused if they write faster than that can be read.
OVERTAKEN_MAX: Final = 4
# service: how long changes of open files are collected before they are looked at, and how often
# files are looked at that the system does not report about.
WATCH_SECONDS: Final = 0.1
WATCH_POLL_SECONDS: Final = 0.5
# service: sessions of persist "never"; one more is overloaded.
MEMORY_SESSIONS_MAX: Final = 256
# journal/memory: what the lines of one such session cost, and those of all of them: more is too_large,
# or overloaded. An entry costs its bytes, and so much for what the index keeps of it.
MEMORY_SESSION_BYTES_MAX: Final = 256 * 1024 * 1024
MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
MEMORY_LINE_BYTES: Final = 256
# service: an idle session is unloaded after this long.
IDLE_SESSION_SECONDS: Final = 300.0
# service: a draft without an assistant message goes to the trash when nobody
# touched it for this long.
DRAFT_SECONDS: Final = 24 * 3600.0
# service: what a refusal tells a client to wait.
RETRY_AFTER_MS: Final = 250

# service: a request that asked for `$/progress` is told at most this often; what finds the
# outbox full is dropped.
PROGRESS_SECONDS: Final = 0.2
# service: lines between two reports of what goes over a whole file.
PROGRESS_LINES: Final = 1024

# service/copying: bytes of lines that a copy reads, changes and writes at once; a longer one goes alone.
COPY_CHUNK_BYTES: Final = 4 * 1024 * 1024
# service: one read of the log by a replay, and what a read may do inline on the loop.
REPLAY_CHUNK_BYTES: Final = 256 * 1024
INLINE_READ_BYTES: Final = 64 * 1024
# service: steps up a parent chain that a read may walk inline on the loop.
INLINE_WALK_STEPS: Final = 2_000
# methods: the `data` of one signal; more is too_large. What finds no room at a subscriber is
# dropped there and counted.
SIGNAL_BYTES_MAX: Final = 256 * 1024
# methods: the words for the kind of a signal and the state of somebody present.
SIGNAL_KIND_CHARS_MAX: Final = 128
# methods: the `data` of one presence; more is too_large.
PRESENCE_BYTES_MAX: Final = 2 * 1024
# service: connections present in one session; one more is overloaded. Every change tells all
# of them, so this times the bytes above must stay below an outbox.
PRESENT_CLIENTS_MAX: Final = 128
# service: bytes of spliced contexts kept per open session.
CONTEXT_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
# service: and how many: a context that is not kept is looked for below each that is.
CONTEXT_CACHE_COUNT_MAX: Final = 32
# service/context/view_cache: the same of contexts that were mended or shaped for a provider.
VIEW_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
VIEW_CACHE_COUNT_MAX: Final = 32
# service/context/cache_budget: what these of all open sessions keep together; the session that was asked longest
# ago makes its contexts again.
CACHES_BYTES_MAX: Final = 128 * 1024 * 1024
# methods: one answer; more is too_large (lists stop earlier and give a cursor).
RESULT_BYTES_MAX: Final = 64 * 1024 * 1024
# journal: one line of a session file, without its newline. Every line that sessiond writes is one
# entry of a frame with its envelope, and so well below; a longer one fits into no answer either. A
# longer line of another program is a bad line: reported, kept in the file, skipped in pieces.
LINE_BYTES_MAX: Final = RESULT_BYTES_MAX
# service/log/events: the body of an event: the entry of a line, and what stands around it. Nothing is
# refused for it, because lines and what is said of them are bounded; clients are told.
EVENT_BYTES_MAX: Final = LINE_BYTES_MAX + 64 * 1024
# methods: rows of one page unless the caller says otherwise, and at most.
PAGE_ROWS_DEFAULT: Final = 500
PAGE_ROWS_MAX: Final = 10_000
# methods: levels of a nested tree; more is too_large. Deeper ones are more than most readers
# of JSON can take.
NESTED_LEVELS_MAX: Final = 500

# service: how long after the first change the contexts of a watched session are looked at.
COMPACTION_LOOK_SECONDS: Final = 0.1
# service/planning, service/copying: stored bytes of a context that is planned, summarised or
# copied; more is too_large.
PLAN_BYTES_MAX: Final = 64 * 1024 * 1024
# service/compaction/division: plans of one session whose files are remembered; those of others are read again.
PLANS_KEPT_MAX: Final = 16
# methods: the id of a plan, which holds ids of a session, a head and two entries.
PLAN_ID_CHARS_MAX: Final = 4096
# service/compaction/summarizers: how long a client may take to write a summary; then the next one is asked.
SUMMARIZE_SECONDS: Final = 120.0
# service/compaction/summarizers: clients that one run asks; then the configured command has its turn.
SUMMARIZERS_ASKED_MAX: Final = 8
# service/compaction/summarizers: bytes of a summary; a longer one is none, and the next one is asked.
SUMMARY_BYTES_MAX: Final = 1024 * 1024
# service/hooks: how long clients may take to say something before a compaction, a fork or a branch;
# then it goes on.
HOOK_SECONDS: Final = 10.0
# service/hooks: characters of the reason of a veto; the rest is cut.
VETO_REASON_CHARS_MAX: Final = 1_000
# cli: commands that write summaries at the same time; others wait for one to end.
SUMMARIZER_PROCESSES_MAX: Final = 4
# service/compaction/runner: compactions that are under way by themselves in the daemon; one more is overloaded.
RUNS_MAX: Final = 64
# service/compaction/runner: plans that these make at the same time, each of so many bytes; the others wait.
RUN_PLANS_MAX: Final = 4
# service/compaction/runner: how long a head rests after an automatic compaction of it failed.
AUTOMATIC_REST_SECONDS: Final = 60.0
# methods: what a plan is asked to mind above all; more is invalid_params.
INSTRUCTIONS_CHARS_MAX: Final = 100_000

# service: messages of each session that the prompt of a merge quotes, the newest, and characters of each;
# more is left out.
MERGE_MESSAGES_MAX: Final = 40
MERGE_MESSAGE_CHARS: Final = 1000
# session: entries of one append call.
APPEND_ENTRIES_MAX: Final = 512
# session: named heads of one session.
HEADS_MAX: Final = 1024
# service/actor/leases: how long a lease may last without being renewed, in milliseconds; a shorter or
# longer one is invalid_params. And how long one may be waited for.
LEASE_TTL_MS_MIN: Final = 100
LEASE_TTL_MS_MAX: Final = 3_600_000
LEASE_WAIT_MS_MAX: Final = 3_600_000
# service/actor/leases: leased heads of one session, and who waits for one of them; more is overloaded.
LEASES_MAX: Final = 1024
LEASE_WAITERS_MAX: Final = 1024
# service: numbers of leases that a daemon sets aside when it starts.
LEASE_EPOCHS_RESERVED: Final = 1_000_000
# session: ids that a precondition_failed reports as missed; ids that session_not_found offers.
MISSED_IDS_MAX: Final = 100
AVAILABLE_IDS_MAX: Final = 20
# session: ids of entries that session/rewind names; beyond it they are only counted.
REWOUND_IDS_MAX: Final = 10_000
# session: problems of one file that are kept word by word; the rest is counted.
PROBLEMS_MAX: Final = 100
# session: earlier entries of one id that a retry is held against; where more have the id, a retry
# of one in the middle is an idempotency_conflict.
SAME_ID_MAX: Final = 16
# methods: characters of a title that is made of a prompt.
TITLE_CHARS: Final = 60
# catalog: bytes of one page of a list; it ends earlier, with a cursor. A row alone may be longer.
LIST_BYTES_MAX: Final = RESULT_BYTES_MAX // 2
# methods: tags that one list asks for; more is invalid_params.
LIST_TAGS_MAX: Final = 100
# methods: bytes of a path, as long as Linux takes; more is invalid_params.
PATH_BYTES_MAX: Final = 4095
# service: bytes of a file that is imported, which is read as a whole; more is too_large.
IMPORT_BYTES_MAX: Final = 1024 * 1024 * 1024
# dialects: characters of a preview.
PREVIEW_CHARS: Final = 60

# cli: how long a start waits for another start, for a daemon that is ending, and for the new one.
START_SECONDS: Final = 30.0
# cli: how long `sessiond stop` waits for the process to be gone, unless told otherwise.
STOP_SECONDS: Final = 30.0
# cli: how long a daemon may take to answer a question of `sessiond status` and the like.
ANSWER_SECONDS: Final = 10.0
# cli: daemon.log is put aside at a start when it is longer.
LOG_BYTES_MAX: Final = 1024 * 1024
# cli: a configuration file; a longer one is refused.
CONFIG_BYTES_MAX: Final = 1024 * 1024
# cli: the soft limit of open files is raised to the hard one, up to this.
OPEN_FILES_MAX: Final = 65_536
# cli: a daemon that was started for its clients ends after this long without any.
IDLE_EXIT_SECONDS: Final = 1800.0
# cli: `sessiond doctor` complains when less is free.
FREE_BYTES_MIN: Final = 64 * 1024 * 1024
# dialects: characters of the first message in a list.
FIRST_MESSAGE_CHARS: Final = 200
# catalog: how long a use waits for another process that holds the database; then a copy in memory
# stands in, which waits for nobody.
LOCKED_SECONDS: Final = 0.5
# service/listing: how long after the first change what lists show is brought up to date.
ROSTER_FLUSH_SECONDS: Final = 1.0
# service/listing: pages of lists that are kept until something changes, and how large each may be.
KEPT_PAGES_MAX: Final = 4
KEPT_PAGE_BYTES_MAX: Final = 2 * 1024 * 1024
# service/listing: how often a list looks at every file for changes by others; new and
# vanished files are noticed by every list.
SURVEY_SECONDS: Final = 1.0
# service/listing: a change this soon after the last one may leave the time of a file or folder as it was.
SAME_TIME_SECONDS: Final = 0.05
# service/listing: rows that one transaction of a scan stores.
SURVEY_BATCH_ROWS: Final = 100
# service/listing: changes of one flush that are told one by one; of more it is told that there are many.
CHANGES_TOLD_MAX: Final = 100
# methods: files that one list names as unreadable, and sessions that one name may mean.
UNREADABLE_SHOWN_MAX: Final = 100
MATCHES_SHOWN_MAX: Final = 20
# methods: sessions of one forest; more is too_large.
FOREST_SESSIONS_MAX: Final = 10_000

# dialects: characters of one entry that a search looks at.
SEARCH_TEXT_CHARS_MAX: Final = 200_000
# service: characters that one transaction adds to the index of searches.
SEARCH_BATCH_CHARS: Final = 2_000_000
# methods: the query of a search; more is invalid_params.
SEARCH_QUERY_CHARS_MAX: Final = 1_000
# catalog: characters of a snippet of a search; the rest is left out.
SNIPPET_CHARS_MAX: Final = 240

# lsp: entries in an outline; its last symbol says how many are left out.
OUTLINE_SYMBOLS_MAX: Final = 5_000
# lsp: nodes of a session's tree kept per document; beyond it a hover knows less.
OUTLINE_NODES_MAX: Final = 100_000
# lsp: documents of one editor that are watched; the others answer, but show no problems.
DOCUMENTS_MAX: Final = 256

# The longest line one append can make must pass the frame limit on its way out again.
assert FRAME_BYTES_MAX < RESULT_BYTES_MAX
assert FRAME_BYTES_MAX < LINE_BYTES_MAX
assert FRAME_BYTES_MAX < MEMORY_SESSION_BYTES_MAX < MEMORY_BYTES_MAX
assert APPEND_ENTRIES_MAX <= BATCH_ENTRIES_MAX
assert BATCH_MEMBERS_MAX <= IN_FLIGHT_MAX
assert CONTEXT_CACHE_BYTES_MAX + VIEW_CACHE_BYTES_MAX <= CACHES_BYTES_MAX
assert PRESENT_CLIENTS_MAX * PRESENCE_BYTES_MAX < OUTBOX_BYTES_MAX // 2


class Bounds(NamedTuple):
    """The bounds that whoever runs the daemon may set, some of them while it runs."""

    open_sessions: int = OPEN_SESSIONS_MAX
    memory_sessions: int = MEMORY_SESSIONS_MAX
    connections: int = CONNECTIONS_MAX
    connections_per_process: int = CONNECTIONS_PER_PROCESS_MAX
    sessions_per_connection: int = SESSIONS_PER_CONNECTION_MAX
    buffered_bytes: int = BUFFERED_BYTES_MAX
    idle_session_seconds: float = IDLE_SESSION_SECONDS
    open_files: int | None = None
    """What the system lets the process have; None = not asked."""

    @property
    def connections_at_most(self) -> int:
        """How many connections may be open: they leave descriptors to sessions, lists and searches."""
        if self.open_files is None:
            return self.connections
        return min(self.connections, self.open_files // CONNECTION_DESCRIPTORS_PART)

    @property
    def connections_of_one_process(self) -> int:
        """How many of these one process may have: it leaves some to other processes."""
        limit = self.connections_at_most
        if limit == self.connections:
            return self.connections_per_process
        return min(self.connections_per_process, max(1, limit // PROCESS_CONNECTIONS_PART))


DEFAULT_BOUNDS: Final = Bounds()
