"""The bounds of the daemon, each with its overflow policy.

A bound has one owner, which its comment names, and one overflow policy. Sizes are
bytes and times are seconds unless the name says otherwise.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# rpc: one message. NDJSON answers too_large and goes on at the next line;
# Content-Length skips the body.
FRAME_BYTES_MAX: Final = 32 * 1024 * 1024
# rpc: the header block of a Content-Length frame; a longer one closes the connection.
HEADER_BYTES_MAX: Final = 8 * 1024
# rpc: nested levels of arrays and objects; more is a parse_error. The bound is far below what
# the decoder can do on any stack, so that accepted JSON can always be read back.
NESTING_MAX: Final = 512
# rpc: the id of a request in the `origin` of events; a longer id is left out there, but comes back
# with the answer.
ORIGIN_ID_BYTES_MAX: Final = 256
# methods: characters of the id that a client gives itself, also part of `origin`.
CLIENT_ID_CHARS_MAX: Final = 128
# methods: characters of a client's name in presence; a longer name is cut.
CLIENT_NAME_CHARS_MAX: Final = 128
# rpc: a frame with half surrogate pairs that is searched for its id, so that the error carries the
# id; a longer frame with them is a parse_error without an id.
HALVES_BYTES_MAX: Final = 1024 * 1024
# rpc: members of one batch; more is too_large.
BATCH_MEMBERS_MAX: Final = 100

# transports: bytes of one read; reads of 256 KiB would allocate and unmap memory each time.
READ_BYTES: Final = 64 * 1024
# transports: bytes that may wait for one connection's socket. Events beyond the bound demote the
# subscription to a replay; answers beyond it stop the reading.
OUTBOX_BYTES_MAX: Final = 1024 * 1024
# transports: messages of one connection that are dispatched before other connections get a turn.
TURN_MESSAGES_MAX: Final = 512
# transports: requests of one connection without an answer, and their bytes; more stops the reading.
IN_FLIGHT_MAX: Final = 1024
IN_FLIGHT_BYTES_MAX: Final = FRAME_BYTES_MAX
# rpc: requests of the daemon that one client has not answered; the client gets no more until then.
OUTGOING_MAX: Final = 64
# service/byte_budget: bytes that the daemon keeps for all connections: partial frames, requests
# without an answer, output that waits for sockets. Beyond it large frames and large answers to
# queries are overloaded; events may use half of it and then stay in the log.
BUFFERED_BYTES_MAX: Final = 512 * 1024 * 1024
# rpc: an answer to a query up to this size is sent however much output waits already.
SMALL_ANSWER_BYTES: Final = 64 * 1024
# transports: open connections, all of them of one user, and those of one process among them; one
# more connection is answered overloaded and closed.
CONNECTIONS_MAX: Final = 4096
CONNECTIONS_PER_PROCESS_MAX: Final = 2048
# transports: connections use at most the descriptors of the process divided by the first number,
# and one client process at most the connections divided by the second; session files, the catalog
# and searches use the rest of the descriptors.
CONNECTION_DESCRIPTORS_PART: Final = 2
PROCESS_CONNECTIONS_PART: Final = 2
# transports: time between two log lines about refused or lost connections.
REFUSALS_LOGGED_SECONDS: Final = 10.0
# service: reads of one connection that run in worker threads at a time; further reads wait.
READS_PER_CONNECTION_MAX: Final = 4
# service: sessions that one connection keeps open by subscriptions, leases or presence; one more is
# overloaded.
SESSIONS_PER_CONNECTION_MAX: Final = 256
# transports: how often a daemon looks whether its socket is there; a cleaner of temporary files or a log-out may
# have removed the socket.
ADDRESS_LOOK_SECONDS: Final = 1.0
# transports: how long a start waits for another process that changes the sockets of the folder.
FOLDER_LOCK_SECONDS: Final = 5.0
# transports: a socket that accepts no byte for this long while an answer waits is closed.
STUCK_SOCKET_SECONDS: Final = 30.0

# service/actor/inbox: commands that wait for the writer of one session; one more is overloaded, except the first one
# of a connection.
INBOX_COMMANDS_MAX: Final = 8192
# service/actor/inbox: bytes of entries in one inbox; more is overloaded, except the first command of a connection.
INBOX_BYTES_MAX: Final = 128 * 1024 * 1024
# service/actor/inbox: entries and bytes that one write and one fdatasync carry.
BATCH_ENTRIES_MAX: Final = 1024
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
# service: open session files; for one more the least recently used idle session is closed. If no
# session is idle, one more is overloaded.
OPEN_SESSIONS_MAX: Final = 512
# service/registry/eviction: this part of the open sessions is for sessions that no client watches, leases, is present
# in or reads, so that an append finds room; one more watcher is overloaded. As much again is for connections that
# watch, lease, are present in or read fewer sessions than the second number.
UNKEPT_PART: Final = 8
FEW_SESSIONS: Final = 16
# service/registry: how long an opening waits while all open sessions are in use and calls that run will end, before
# it is overloaded; the second is the time between two looks.
ROOM_PATIENCE_SECONDS: Final = 5.0
ROOM_LOOK_SECONDS: Final = 0.02
# service/registry/eviction: descriptors of an open session; and those that are left to connections,
# lists and copies, or this part of all descriptors if that is less: idle sessions are closed, else
# overloaded.
SESSION_DESCRIPTORS: Final = 2
SPARE_DESCRIPTORS: Final = 16
SPARE_DESCRIPTORS_PART: Final = 8
# service: sessions whose batches are written to disk at a time; the batches of other sessions wait.
WRITER_THREADS_MAX: Final = 32
# service: threads of openings; threads of looks outside the profile, in all; threads that write or read files that
# clients name; threads of each purpose that wait for one place outside the profile, a root or a folder; how long a
# look there is waited for.
OPENINGS_MAX: Final = 64
PLACES_THREADS_MAX: Final = 64
NAMED_FILES_THREADS_MAX: Final = 16
PLACE_THREADS_MAX: Final = 8
PLACE_PATIENCE_SECONDS: Final = 5.0
# service/registry: sessions that are being opened for one connection at a time; further openings wait for their
# turn, and take no room among the open sessions before. An opening gives its turn back after PLACE_PATIENCE_SECONDS.
OPENINGS_PER_CONNECTION_MAX: Final = 8
# service: an append ends a foreign half line with a newline once that has not grown for the first
# time, or once the append has waited for the second time; the third is the time between two looks.
HALF_LINE_SECONDS: Final = 1.0
HALF_LINE_WAIT_SECONDS: Final = 3.0
HALF_LINE_LOOK_SECONDS: Final = 0.02
# service/files: a repair is over once no program has written to the old file for the first time, or once
# programs went on for the second time: a program may have opened the file right before it was replaced.
LATE_LINE_SECONDS: Final = 0.1
LATE_LINES_WAIT_SECONDS: Final = 3.0
# journal/disk/sidecar: how long a write waits for the lock that other writers of the file take, before
# the write is refused; the second is the time between two tries.
SIDECAR_WAIT_SECONDS: Final = 5.0
SIDECAR_LOOK_SECONDS: Final = 0.02
# journal: foreign bytes that are read, synced and published at a time; one longer line goes alone.
INTAKE_BYTES: Final = 1024 * 1024
# service: how often a batch is staged again because a foreign writer wrote first. Then the foreign
# lines go before the batch without staging again, or the batch is refused if they come too fast.
OVERTAKEN_MAX: Final = 4
# service: how long reported changes of open files are collected before the files are looked at, and
# the time between two looks at files that the system does not report on.
WATCH_SECONDS: Final = 0.1
WATCH_POLL_SECONDS: Final = 0.5
# service: looks behind a change that tell of the change again; FUSE keeps what it knows of a file for a second.
WATCH_POLLS_AGAIN: Final = 4
# service: the time between two questions of a daemon what other daemons changed in a database.
DATABASE_POLL_SECONDS: Final = 1.0
# service: how long looks at the rows of open sessions wait to share the next query; then the query that runs
# may be at a server process that hangs, and the looks that wait have a query of their own.
DATABASE_SHARED_SECONDS: Final = 0.25
# service: the least time between two rings of a daemon, which tell others of changes in a database.
DOORBELL_SECONDS: Final = 0.02
# service: how long a session is taken to be contended by daemons behind a lost race: their appends wait in turn.
CONTENDED_SECONDS: Final = 0.05
# postgresql, service: sessions of which one daemon holds the row, or waits for the row, at once.
DATABASE_HOLDS_MAX: Final = 4
# postgresql: how long a daemon that does nothing may hold a row.
DATABASE_HOLD_SECONDS: Final = 1
# service: how long the beats of another daemon stand still until its leases end.
DAEMON_SILENT_SECONDS: Final = 30.0
# service: the pause between two notes of a daemon that has sessions open; how long a note counts, which spares
# these sessions from clean-up and retention at other daemons.
OPEN_NOTE_SECONDS: Final = 15.0
OPEN_NOTE_COUNTS_SECONDS: Final = 60.0
# service: how long a daemon keeps other daemons from work that it does for all, unless extended; the pause
# between two looks at whether such work is over.
CLAIM_SECONDS: Final = 30.0
CLAIM_LOOK_SECONDS: Final = 0.5
# service/database: signals that wait for the database: their number and bytes in one session, and their bytes
# in all sessions of a daemon. One more is dropped for the subscribers at other daemons, and counted there.
SIGNALS_WAITING_MAX: Final = 4096
SIGNALS_WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
ALL_SIGNALS_WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
# service/database: bytes of signals that one statement writes, unless a single signal has more; the pause before
# another try once the database has refused one.
SIGNALS_WRITE_BYTES: Final = 1024 * 1024
SIGNALS_RETRY_SECONDS: Final = 0.5
# service/database: how long the database keeps signals, and how many and how many bytes of one sender. A daemon
# that looks later counts those that are gone.
SIGNALS_KEPT_SECONDS: Final = 60.0
SIGNALS_KEPT_MAX: Final = 4096
SIGNALS_KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
# postgresql: bytes of signals that one look reads; older signals count as dropped.
SIGNALS_READ_BYTES_MAX: Final = 4 * 1024 * 1024
# service/database: how long the row of a sender stays that has ended; it says how many signals there were.
SENDER_KEPT_SECONDS: Final = 180.0
# service/database: senders that a look remembers although their rows are gone, as after a crash.
SENDERS_REMEMBERED_MAX: Final = 256
# service: the pause between two clean-ups, by retention and of abandoned drafts; daemons of one database clean up
# once in that time, together.
CLEAN_UP_SECONDS: Final = 3600.0
# postgresql, service: connections of one daemon, and those that appends, other changes of rows, and bulk (reads,
# creations) may take at a time; more wait. What is left over is for calls that wait for nothing (looks, beats).
DATABASE_CONNECTIONS_MAX: Final = 16
DATABASE_APPENDS_MAX: Final = 8
DATABASE_CHANGES_MAX: Final = 3
DATABASE_BULK_MAX: Final = 3
# postgresql: how long one of the connections for appends stays with appends that come one after another.
DATABASE_AT_HAND_SECONDS: Final = 1.0
# postgresql: seconds until the server gives up a connection, a statement, a lock, a transaction without a
# statement, and one between its last statement and its commit.
DATABASE_CONNECT_SECONDS: Final = 10
DATABASE_STATEMENT_SECONDS: Final = 60
DATABASE_LOCK_SECONDS: Final = 20
DATABASE_IDLE_SECONDS: Final = 60
DATABASE_COMMIT_SECONDS: Final = 5
# postgresql: how long a daemon waits for the answer of a look or a beat, and, behind the end of a statement
# or a lock at the server, for that of another call; then it drops the connection.
DATABASE_LOOK_SECONDS: Final = 5.0
DATABASE_ANSWER_SECONDS: Final = 5.0
# service: how long a read of an open session waits for the database's answer to an append before it.
DATABASE_READ_SECONDS: Final = 6.0
# postgresql: how long a call waits for a connection while the database is known to be away.
DATABASE_AWAY_SECONDS: Final = 0.5
# service: how long a daemon believes the database's clock that it has read last to run as its own does.
DATABASE_CLOCK_SECONDS: Final = 60.0
# postgresql: how long a daemon that starts waits for a database that does not answer.
DATABASE_START_SECONDS: Final = 5.0
# postgresql: how long a ring of a daemon takes at most to come back to the daemon; else rings do not come
# through, and after the second pause the daemon tries to hear them again.
DATABASE_HEARD_SECONDS: Final = 5.0
DATABASE_DEAF_SECONDS: Final = 60.0
# postgresql: pauses between two looks at whether other daemons hear rings, and between two rings while none does.
DATABASE_ALONE_SECONDS: Final = 10.0
DATABASE_LONE_RING_SECONDS: Final = 1.0
# postgresql: sessions that one ring names, so that a payload stays below 8,000 bytes.
DATABASE_RING_SESSIONS_MAX: Final = 300
# postgresql: lines and bytes of one piece of a session that is read, and bytes of one that a repair stores; a
# longer line is a piece of its own.
DATABASE_PIECE_LINES: Final = 2000
DATABASE_PIECE_BYTES: Final = 4 << 20
# postgresql: lines that one statement reads of a session that is opened, in many rows.
DATABASE_AHEAD_LINES: Final = 20_000
# service: sessions of persist "never"; one more is overloaded.
MEMORY_SESSIONS_MAX: Final = 256
# journal/memory: bytes of one such session (more is too_large) and of all of them (more is
# overloaded). An entry costs its bytes, and the third bound for its part of the index.
MEMORY_SESSION_BYTES_MAX: Final = 256 * 1024 * 1024
MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
MEMORY_LINE_BYTES: Final = 256
# service: an idle session is closed after this long.
IDLE_SESSION_SECONDS: Final = 300.0
# service: a draft without an assistant message goes to the trash if unchanged for this long.
DRAFT_SECONDS: Final = 24 * 3600.0
# service: the wait before a retry that a refusal tells the client.
RETRY_AFTER_MS: Final = 250

# service: time between two `$/progress` notifications of a request; a notification that finds the
# outbox full is dropped.
PROGRESS_SECONDS: Final = 0.2
# service: lines between two progress reports of work on a whole file.
PROGRESS_LINES: Final = 1024

# service/copying: bytes of lines that a copy reads, changes and writes at a time; a longer line
# goes alone.
COPY_CHUNK_BYTES: Final = 4 * 1024 * 1024
# service: bytes of one read of a replay, and of a read that may run on the event loop.
REPLAY_CHUNK_BYTES: Final = 256 * 1024
INLINE_READ_BYTES: Final = 64 * 1024
# service: steps up a parent chain that a read may walk on the event loop.
INLINE_WALK_STEPS: Final = 2_000
# methods: the `data` of one signal; more is too_large. A signal that finds no room at a subscriber
# is dropped for that subscriber and counted.
SIGNAL_BYTES_MAX: Final = 256 * 1024
# service/pubsub: bytes that are kept of the answer that a present client is streaming; the rest is left out.
STREAMED_BYTES_MAX: Final = 1024 * 1024
# service/queues: prompts that wait for the agent of one session; one more is overloaded.
QUEUED_PROMPTS_MAX: Final = 256
# methods, service/queues: ids of prompts that one session/queue removes, and that are remembered of
# one session, for at least so many milliseconds and at most twice as many.
QUEUE_DONE_MAX: Final = 256
QUEUE_DONE_KEPT_MS: Final = 3_600_000
# methods: characters of a signal's kind and of a presence's state.
SIGNAL_KIND_CHARS_MAX: Final = 128
# methods: the `data` of one presence; more is too_large.
PRESENCE_BYTES_MAX: Final = 2 * 1024
# service: connections present in one session; one more is overloaded. Every change sends all
# presences, so this number times the bytes above must stay below an outbox.
PRESENT_CLIENTS_MAX: Final = 128
# service: bytes of spliced contexts kept per open session.
CONTEXT_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
# service: kept contexts per open session. The number is bounded because the search for a context
# that is not kept goes through all kept ones.
CONTEXT_CACHE_COUNT_MAX: Final = 32
# service/context/view_cache: bytes and number of kept contexts that were repaired or shaped for a
# provider, per open session.
VIEW_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
VIEW_CACHE_COUNT_MAX: Final = 32
# service/context/cache_budget: bytes of these caches in all open sessions; the caches of the least
# recently asked session are dropped first.
CACHES_BYTES_MAX: Final = 128 * 1024 * 1024
# service/registry: entries of closed sessions that may still take memory, each session counted with that many
# more for what it has beside its entries; a search for cycles frees them then. The search takes 20 ms for each
# million entries of open sessions.
CLOSED_ENTRIES_MAX: Final = 100_000
CLOSED_SESSION_ENTRIES: Final = 1_000
# methods: one answer; more is too_large (lists stop earlier and give a cursor).
RESULT_BYTES_MAX: Final = 64 * 1024 * 1024
# journal: one line of a session file, without its newline. Every line that sessiond writes is an
# entry of a frame with its envelope, and so far shorter; a longer line would fit into no answer. A
# longer foreign line is a bad line: reported, kept in the file, skipped in pieces.
LINE_BYTES_MAX: Final = RESULT_BYTES_MAX
# dialects/sharur: one line that sessiond writes into a sharur file, without its newline; a longer
# one is too_large. sharur's reader (Go's bufio.Scanner) ends at a line of 64 KiB with its newline.
SHARUR_LINE_BYTES_MAX: Final = 64 * 1024 - 1
# service/log/events: the body of an event: the entry of a line and its surroundings. No event can
# be longer, because lines and surroundings are bounded; `initialize` tells clients the bound.
EVENT_BYTES_MAX: Final = LINE_BYTES_MAX + 64 * 1024
# methods: rows of one page unless the caller says otherwise, and at most.
PAGE_ROWS_DEFAULT: Final = 500
PAGE_ROWS_MAX: Final = 10_000
# methods: levels of a nested tree; more is too_large, because most JSON readers cannot take deeper
# trees.
NESTED_LEVELS_MAX: Final = 500

# service: time between the first change of a watched session and the look at its contexts.
COMPACTION_LOOK_SECONDS: Final = 0.1
# service/log/plan_lines: bytes of a context that is planned, summarised or copied, without those of its images
# if it has more; more is too_large.
PLAN_BYTES_MAX: Final = 64 * 1024 * 1024
# service/compaction/division: plans of one session whose files are remembered; for other plans the
# files are read again.
PLANS_KEPT_MAX: Final = 16
# methods: characters of a plan's id, which has the ids of a session, a head and two entries.
PLAN_ID_CHARS_MAX: Final = 4096
# service/summaries/summarizers: how long a client may take to write a summary; then the next
# client is asked.
SUMMARIZE_SECONDS: Final = 120.0
# service/summaries/summarizers: clients that are asked for one summary; then the configured command
# runs.
SUMMARIZERS_ASKED_MAX: Final = 8
# service/summaries/summarizers: bytes of a summary; a longer summary is refused, and the next
# client is asked.
SUMMARY_BYTES_MAX: Final = 1024 * 1024
# service/hooks: how long clients may take to answer before a compaction, a fork or a branch; then
# the operation goes on.
HOOK_SECONDS: Final = 10.0
# service/hooks: characters of the reason of a veto; the rest is cut.
VETO_REASON_CHARS_MAX: Final = 1_000
# cli: summarizer commands that run at a time; further commands wait.
SUMMARIZER_PROCESSES_MAX: Final = 4
# service/summaries/runs: compactions, merges, squashes and navigations that wait in the daemon for a
# summary at a time, and those of them that one connection asked for; one more is overloaded.
RUNS_MAX: Final = 64
RUNS_PER_CONNECTION_MAX: Final = 16
# service/summaries/runs: plans that are made for these summaries at a time, each up to
# PLAN_BYTES_MAX; further plans wait.
RUN_PLANS_MAX: Final = 4
# service/compaction/runner: pause after a failed automatic compaction of a head.
AUTOMATIC_REST_SECONDS: Final = 60.0
# methods: characters of the instructions for a plan; more is invalid_params.
INSTRUCTIONS_CHARS_MAX: Final = 100_000

# service/exporting/documents: characters of one text that a page renders as Markdown; a longer text is
# shown as it is.
MARKDOWN_CHARS_MAX: Final = 10_000
# methods: patterns of one redaction, and characters of each; more is invalid_params.
REDACTION_PATTERNS_MAX: Final = 100
REDACTION_PATTERN_CHARS_MAX: Final = 1_000
# service/log/statistics: bytes of the names of tools, and of each list of files, in the statistics of
# one session; further names are only counted as left out.
STATISTICS_NAMES_BYTES_MAX: Final = 1024 * 1024
# service/log/statistics: compactions that statistics show one by one, the newest.
COMPACTIONS_SHOWN_MAX: Final = 100

# service: newest messages of each session that the prompt of a merge quotes, and characters of each
# message; the rest is left out.
MERGE_MESSAGES_MAX: Final = 40
MERGE_MESSAGE_CHARS: Final = 1000
# session: entries of one append call.
APPEND_ENTRIES_MAX: Final = 512
# model/working: decisions that the view shows; the log keeps all of them.
DECISIONS_SHOWN_MAX: Final = 10
# model/working: artifacts of one session, and the bytes of their names and paths; more is
# too_large.
ARTIFACTS_MAX: Final = 1_000
ARTIFACTS_BYTES_MAX: Final = 256 * 1024
# model/working: characters of a decision, of a rationale and of a task, and of an artifact's
# name; more is invalid.
STATE_TEXT_CHARS_MAX: Final = 16_384
ARTIFACT_NAME_CHARS_MAX: Final = 256
# methods: the limits above which a prune is due, unless the call sends other ones.
PRUNE_DECISIONS: Final = 10
PRUNE_TOKENS: Final = 150_000
# session, catalog: leading and trailing characters of an id that name a session or an entry; fewer name none.
REF_BEGINNING_MIN: Final = 4
REF_END_MIN: Final = 6
# session: named heads of one session.
HEADS_MAX: Final = 1024
# service/actor/leases: bounds of the time to live of a lease, in milliseconds; another time is
# invalid_params. And the longest wait for a lease.
LEASE_TTL_MS_MIN: Final = 100
LEASE_TTL_MS_MAX: Final = 3_600_000
LEASE_WAIT_MS_MAX: Final = 3_600_000
# service/actor/leases: leased heads of one session, and waiters for one head; more is overloaded.
LEASES_MAX: Final = 1024
LEASE_WAITERS_MAX: Final = 1024
# service/actor/leases: heads of one session that one connection leases or waits for; one more is overloaded.
LEASES_PER_CONNECTION_MAX: Final = 256
# service: lease epochs that a daemon reserves when it starts.
LEASE_EPOCHS_RESERVED: Final = 1_000_000
# session: ids that a precondition_failed reports as missed; ids that session_not_found offers.
MISSED_IDS_MAX: Final = 100
AVAILABLE_IDS_MAX: Final = 20
# session: ids of entries that session/rewind names; beyond it they are only counted.
REWOUND_IDS_MAX: Final = 10_000
# session: problems of one file that are kept in full; the rest is only counted.
PROBLEMS_MAX: Final = 100
# session: earlier entries of one id that a retry is compared with; if more entries have the id, a
# retry of one in the middle is an idempotency_conflict.
SAME_ID_MAX: Final = 16
# methods: characters of a title that is generated from a prompt.
TITLE_CHARS: Final = 60
# catalog: bytes of one page of a list; a page with more ends early, with a cursor. A single row may
# be longer.
LIST_BYTES_MAX: Final = RESULT_BYTES_MAX // 2
# methods: tags in the filter of one list; more is invalid_params.
LIST_TAGS_MAX: Final = 100
# methods: bytes of a path, as many as Linux allows; more is invalid_params.
PATH_BYTES_MAX: Final = 4095
# service: bytes of one JSON document, which an import holds whole, and of what a packed rollout has once it is
# unpacked; more is too_large. A file of lines has no such limit.
IMPORT_BYTES_MAX: Final = 1024 * 1024 * 1024
# dialects: bytes of the records of another agent's file that wait for a parent that stands behind them;
# beyond that the records are taken without the parent.
AGENT_HELD_BYTES_MAX: Final = 64 * 1024 * 1024
# service: lines of another agent's file that are no records, each of which costs about 25 us and 145 bytes; a
# session with more is storage_error, and a search has what stands before them.
AGENT_STRAY_LINES_MAX: Final = 400_000
# dialects: bytes of the prompts that a reading of a rollout of Codex keeps, for a compaction of the old
# form; the oldest ones fall out, and the compaction says how many.
CODEX_PROMPTS_BYTES_MAX: Final = 256 * 1024
# dialects: bytes of a replaced list that a reading of Gemini CLI keeps; a rewind into a longer list
# leaves all of the list, and a message of a longer list that comes again stands behind the list.
GEMINI_LIST_BYTES_MAX: Final = 4 * 1024 * 1024
# service: how long a read of opencode's database waits for a writer that locks all of it, and how often
# it begins again when the database changes under it; then the answer is storage_error.
OPENCODE_BUSY_SECONDS: Final = 0.5
OPENCODE_TRIES: Final = 5
# service: what one read of opencode's database may take: seconds (its copy as many, where it needs one), and steps of
# SQLite (17 for a row of a table without an index); more is too_large. A read that has no outcome in as many seconds and
# PLACE_PATIENCE_SECONDS counts as a place that does not answer. A list reads such a database again when it has changed, or a while later.
OPENCODE_READ_SECONDS: Final = 5.0
OPENCODE_STEPS_MAX: Final = 100_000_000
OPENCODE_AGAIN_SECONDS: Final = 60.0
# service: bytes of the rows that one read of opencode's database holds, messages aside, where a column counts
# OPENCODE_COLUMN_BYTES and its text; more is too_large. A text of a session's row is read up to so many characters.
OPENCODE_ROWS_BYTES_MAX: Final = 64 * 1024 * 1024
OPENCODE_COLUMN_BYTES: Final = 64
OPENCODE_COLUMN_CHARS_MAX: Final = 64 * 1024
# service: bytes of a message of opencode with its parts. What is longer, or has no room in its message, is read
# as the word that it is too long. A read of messages ends behind the one with which it has this many bytes.
OPENCODE_MESSAGE_BYTES_MAX: Final = FRAME_BYTES_MAX
OPENCODE_BATCH_BYTES: Final = 8 * 1024 * 1024
# service: messages of opencode that one transaction reads, and those at each end of a session that a list
# reads of a longer one.
OPENCODE_BATCH_MESSAGES: Final = 64
OPENCODE_LIST_MESSAGES: Final = 16
# service: how long a prompt and an answer of opencode stay unchanged before they count as ended without a
# word of opencode that they have.
OPENCODE_PROMPT_SECONDS: Final = 2.0
OPENCODE_ANSWER_SECONDS: Final = 600.0
# dialects: characters of a preview.
PREVIEW_CHARS: Final = 60

# cli: how long a start waits for another start, for a stopping daemon, and for the new daemon.
START_SECONDS: Final = 30.0
# cli: how long `sessiond stop` waits for the process to be gone, unless told otherwise.
STOP_SECONDS: Final = 30.0
# cli: how long a daemon may take to answer a question of `sessiond status` and the like.
ANSWER_SECONDS: Final = 10.0
# cli: a daemon.log that is longer is put aside at a start.
LOG_BYTES_MAX: Final = 1024 * 1024
# cli: bytes of a configuration file; a longer file is refused.
CONFIG_BYTES_MAX: Final = 1024 * 1024
# cli: the soft limit of open files is raised to the hard limit, but not above this.
OPEN_FILES_MAX: Final = 65_536
# cli: descriptors that a starting daemon must be able to take: a dozen for itself, the connections that
# it may admit then, and one open session with its reserve. With fewer it does not start.
FREE_DESCRIPTORS_MIN: Final = 40
# cli: a daemon that a client started ends after this long without clients.
IDLE_EXIT_SECONDS: Final = 1800.0
# cli: `sessiond doctor` complains if less disk space is free.
FREE_BYTES_MIN: Final = 64 * 1024 * 1024
# dialects: characters of the first message in a list.
FIRST_MESSAGE_CHARS: Final = 200
# catalog: how long a call waits for another process that has the database locked; then a copy in
# memory stands in for the file.
LOCKED_SECONDS: Final = 0.5
# service/files: entries from which on a session's index is kept when the session is closed.
KEPT_INDEX_ENTRIES: Final = 10_000
# service/files: bytes of a file from which on its index is kept too, however few lines the file has, and the lines
# of another agent's file beside the index.
KEPT_INDEX_FILE_BYTES: Final = 8 * 1024 * 1024
# journal/profile: bytes of a new file that are written between two syncs of the file.
SYNC_STEP_BYTES: Final = 16 * 1024 * 1024
# service/database: lines from which on a copy of a session's lines is kept when the session is closed.
KEPT_COPY_LINES: Final = 2_000
# journal/spool: bytes that are written ahead of the lines, so that a disk which gets full refuses no line that
# the database was sent already.
SPOOL_ROOM_BYTES: Final = 64 * 1024
# service/files, service/database: bytes of all kept lines of other agents' files, and of all copies from a database.
KEPT_COPIES_BYTES_MAX: Final = 2**31
# service/files: bytes of a kept index; a larger file is no index.
KEPT_INDEX_BYTES_MAX: Final = 2**30
# service/files: lines that are read to see whether a kept index fits its file.
INDEX_SAMPLE_LINES: Final = 16
# service/listing: time that a daemon leaves to openings before its first scan, unless a list is asked for.
FIRST_SCAN_SECONDS: Final = 1.0
# service/files: for how long the answer to a change of the roots has the figures of other roots as they were.
ROOT_FIGURES_SECONDS: Final = 5.0
# service/listing: how long a list or a search that need not be whole waits for the reading under way.
GLANCE_SECONDS: Final = 0.2
# service/listing: time between the first change and the update of what lists show.
CATALOG_FLUSH_SECONDS: Final = 1.0
# service/listing: pages of lists that are kept until the next change, and bytes of each page.
KEPT_PAGES_MAX: Final = 4
KEPT_PAGE_BYTES_MAX: Final = 2 * 1024 * 1024
# service/listing: time between two looks at every file for foreign changes; every list notices new
# and vanished files.
SCAN_SECONDS: Final = 1.0
# service/listing: least time between two looks at the roots for a session that was not found; what is asked
# for meanwhile waits for the next look.
MISS_SECONDS: Final = 1.0
# service/listing: time between two looks at every file of the folders whose changes the system tells.
ROOT_SCAN_SECONDS: Final = 60.0
# service/listing: time between two looks at the folders of roots whose changes no system tells, while
# a connection watches the catalog.
ROOT_POLL_SECONDS: Final = 2.0
# service/listing: how long is kept what an agent's registry says of running programs; the files of one
# registry that are read, and the bytes of each. A larger file says nothing.
RUNNING_SECONDS: Final = 1.0
RUNNING_FILES_MAX: Final = 1_000
RUNNING_FILE_BYTES_MAX: Final = 64 * 1024
# service/listing: two changes within this time may leave the time of a file or folder unchanged.
SAME_TIME_SECONDS: Final = 0.05
# service/listing: rows that one transaction of a scan stores.
SCAN_BATCH_ROWS: Final = 100
# service/listing: processes that read new files ahead of a scan, at most one less than there are processors; new files
# of a scan that pay for their start; files that one is asked for at a time; how many files, in the order of the scan,
# the scan reads itself before it comes to theirs, and each process reads meanwhile; how long the scan waits for an answer.
ROW_MAKERS_MAX: Final = 3
ROW_MAKERS_FILES_MIN: Final = 1_000
ROW_MAKER_FILES: Final = 5
ROW_MAKER_AHEAD_FILES: Final = 100
ROW_MAKER_SECONDS: Final = 20.0
# service/listing: changes of one flush that are published one by one; more are published as "many".
CHANGES_TOLD_MAX: Final = 100
# methods: unreadable files that one list names, and sessions that an ambiguous ref names.
UNREADABLE_SHOWN_MAX: Final = 100
MATCHES_SHOWN_MAX: Final = 20
# methods: latest sessions among which session/continue_recent looks for one that can be continued.
RECENT_LOOKED_AT: Final = 50
# methods: sessions of one forest; more is too_large.
FOREST_SESSIONS_MAX: Final = 10_000
# service/scopes: sessions of one project that a switch opens; the others are opened on demand.
SCOPED_SESSIONS_MAX: Final = 100
# methods: characters of the name of an agent that is the key of a session.
AGENT_NAME_CHARS_MAX: Final = 200

# state: bytes of one value; more is too_large.
STATE_VALUE_BYTES_MAX: Final = 4 * 1024 * 1024
# state: bytes of the values and keys of one namespace, which one answer and one write of a file hold,
# and of all namespaces, which are in memory; more is too_large.
STATE_NAMESPACE_BYTES_MAX: Final = 32 * 1024 * 1024
STATE_BYTES_MAX: Final = 256 * 1024 * 1024
# state: keys of one namespace, and namespaces; one more is too_large.
STATE_KEYS_MAX: Final = 10_000
STATE_NAMESPACES_MAX: Final = 4_096
# state: tags of one value; more is invalid_params.
STATE_TAGS_MAX: Final = 32
# methods: the longest time to live of a value, about a hundred years; a longer one is invalid_params.
STATE_TTL_MS_MAX: Final = 100 * 366 * 24 * 3_600_000
# state: bytes of a file of the store, or of one that is loaded; a larger file is refused.
STATE_FILE_BYTES_MAX: Final = 128 * 1024 * 1024
# methods: characters of a secret; more is invalid_params.
SECRET_CHARS_MAX: Final = 64 * 1024
# state: bytes of a key file, and of what a key command writes; more is no key.
KEY_FILE_BYTES_MAX: Final = 64 * 1024
# daemon: how long a key command may take, as it may ask the user for a password.
KEY_COMMAND_SECONDS: Final = 60.0
# service/states: calls that wait for the writer of one namespace; one more is overloaded.
STATE_CALLS_MAX: Final = 8_192
# service/database: revisions that each write of one of several daemons reserves. A write changes fewer
# keys; more would still get revisions in order, but perhaps those of keys of another namespace.
STATE_REVISIONS_RESERVED: Final = 65_536
# service/states: the longest pause between two looks for values whose time is over, since the clock
# may be set meanwhile.
STATE_LOOK_SECONDS: Final = 60.0

# dialects: characters of one entry that enter the search index, and of the arguments or the output of one call; of an
# output half of them are those of its end.
SEARCH_TEXT_CHARS_MAX: Final = 200_000
SEARCH_TOOL_CHARS_MAX: Final = 32_768
# service: bytes of one text of a very long line of another agent that a search takes, enough for these characters, and
# of the text's end.
SEARCH_TEXT_BYTES: Final = 6 * SEARCH_TEXT_CHARS_MAX
SEARCH_END_BYTES: Final = 6 * SEARCH_TOOL_CHARS_MAX // 2
# service: bytes of another program's file that a list reads, also of both ends of a larger file; how many of the beginning
# where these do not tell enough; how many such bytes may be once they are unpacked; how many of the beginning are read at a
# time; of a piece with more lines, so many at each of its ends.
AGENT_LIST_BYTES_MAX: Final = 64 * 1024
AGENT_LIST_PREAMBLE_BYTES: Final = 1024 * 1024
AGENT_LIST_UNPACKED_BYTES: Final = 256 * 1024
AGENT_LIST_STEP_BYTES: Final = 16 * 1024
AGENT_LIST_LINES: Final = 1000
# service/listing: a file of another program of which a list has read a part is read whole, for its figures, once
# nobody has written to it for so long, and for as long as the reading may take at so many bytes a second; a
# larger file keeps the figures of a part until it is opened.
FIGURES_QUIET_SECONDS: Final = 1.0
FIGURES_BYTES_PER_SECOND: Final = 20 * 1024 * 1024
FIGURES_BYTES_MAX: Final = 256 * 1024 * 1024
# service: bytes of one line, and of one document, that a list takes as they are. Of a longer one a list takes each
# text up to the third number; a line that is longer even so is no record in a list. The values of a line that is
# nothing but empty objects take 150 bytes of memory for each byte of the line.
LIST_LINE_BYTES: Final = 384 * 1024
AGENT_LIST_DOCUMENT_BYTES: Final = 8 * 1024 * 1024
LIST_TEXT_BYTES: Final = 4 * 1024
# service: bytes of one output of a tool, which another agent keeps in a file of its own, that a copy of its
# session takes into a result, and of all of them in one copy; the rest is left out, with a note.
AGENT_OUTPUT_BYTES_MAX: Final = 64 * 1024
AGENT_OUTPUTS_BYTES_MAX: Final = 4 * 1024 * 1024
# service: characters of an image, in base64, that a copy of another agent's session takes: what a provider
# takes. A larger one becomes a text, with a note.
AGENT_IMAGE_CHARS_MAX: Final = 5_000_000
# service: characters of one session of another agent that enter the search index.
AGENT_TEXT_CHARS_MAX: Final = 16_000_000
# service: characters of all sessions of one root that enter the search index; the sessions whose files were
# written first are left out.
ROOT_TEXT_CHARS_MAX: Final = 500_000_000
# catalog: bytes of the search index. Beyond them the oldest outputs of tools leave it, then the oldest arguments, then
# the oldest messages. And bytes that the index leaves free on its disk: with less it takes no more text.
INDEX_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
INDEX_FREE_BYTES: Final = 32 * 1024 * 1024
# service: characters that one transaction adds to the search index, and bytes of the lines that are read for it: a stop
# of the daemon waits for one.
SEARCH_BATCH_CHARS: Final = 2_000_000
SEARCH_BATCH_BYTES: Final = 64 * 1024 * 1024
# service: sessions and characters of one transaction of the search index.
SEARCH_STEP_SESSIONS: Final = 50
SEARCH_STEP_CHARS: Final = 250_000
# catalog: lines that one transaction removes from the search index, and pages of 4 KB that one merges, so that
# a search waits for milliseconds.
REMOVED_ROWS_MAX: Final = 100
MERGE_PAGES: Final = 250
# daemon: how often the search index is brought up to date, and words of what is gone are erased from it.
INDEX_SECONDS: Final = 1800.0
# methods: the query of a search; more is invalid_params.
SEARCH_QUERY_CHARS_MAX: Final = 1_000
# catalog: characters of a search snippet; the rest is left out.
SNIPPET_CHARS_MAX: Final = 240

# lsp: entries in an outline; its last symbol says how many are left out.
OUTLINE_SYMBOLS_MAX: Final = 5_000
# lsp: nodes of a session's tree kept per document; beyond them a hover shows less.
OUTLINE_NODES_MAX: Final = 100_000
# lsp: entries of a document with code lenses, the last ones of the text; commands of further entries
# are code actions at their lines.
LENS_ENTRIES_MAX: Final = 1_000
# lsp: entries with inlay hints in one answer; and of a document, those whose figures are kept.
HINT_ENTRIES_MAX: Final = 500
HINTS_KEPT_MAX: Final = 20_000
# lsp: hits of a search over all sessions, and sessions listed without a query.
WORKSPACE_SYMBOLS_MAX: Final = 100
# lsp: characters of a text whose semantic tokens are answered as a whole, and of a line in which they are
# looked for; a longer text is answered by ranges.
TOKENS_CHARS_MAX: Final = 4_000_000
LINE_TOKENS_CHARS_MAX: Final = 256 * 1024
# lsp: labels in use that an editor's user can choose from.
LABELS_OFFERED_MAX: Final = 4
# lsp: watched documents of one editor; further documents answer, but show no problems.
DOCUMENTS_MAX: Final = 256
# lsp: messages that an editor has not read yet; the server waits for an editor beyond that.
LSP_WAITING_BYTES_MAX: Final = 64 * 1024 * 1024

# The longest line that one append can make must fit into an answer again.
assert min(OPENINGS_MAX, NAMED_FILES_THREADS_MAX, WRITER_THREADS_MAX) > PLACE_THREADS_MAX
assert PLACE_THREADS_MAX <= OPENINGS_PER_CONNECTION_MAX
assert FRAME_BYTES_MAX < RESULT_BYTES_MAX
assert FRAME_BYTES_MAX < LINE_BYTES_MAX
assert FRAME_BYTES_MAX < MEMORY_SESSION_BYTES_MAX < MEMORY_BYTES_MAX
assert APPEND_ENTRIES_MAX <= BATCH_ENTRIES_MAX
assert BATCH_MEMBERS_MAX <= IN_FLIGHT_MAX
assert CONTEXT_CACHE_BYTES_MAX + VIEW_CACHE_BYTES_MAX <= CACHES_BYTES_MAX
assert PRESENT_CLIENTS_MAX * PRESENCE_BYTES_MAX < OUTBOX_BYTES_MAX // 2
assert SIGNAL_BYTES_MAX < SIGNALS_WRITE_BYTES <= SIGNALS_READ_BYTES_MAX <= SIGNALS_KEPT_BYTES_MAX
assert SIGNALS_WRITE_BYTES <= SIGNALS_WAITING_BYTES_MAX <= ALL_SIGNALS_WAITING_BYTES_MAX
assert DAEMON_SILENT_SECONDS < SIGNALS_KEPT_SECONDS < SENDER_KEPT_SECONDS


class Bounds(NamedTuple):
    """The bounds that the user may set, some of them while the daemon runs."""

    open_sessions: int = OPEN_SESSIONS_MAX
    memory_sessions: int = MEMORY_SESSIONS_MAX
    connections: int = CONNECTIONS_MAX
    connections_per_process: int = CONNECTIONS_PER_PROCESS_MAX
    sessions_per_connection: int = SESSIONS_PER_CONNECTION_MAX
    buffered_bytes: int = BUFFERED_BYTES_MAX
    index_bytes: int = INDEX_BYTES_MAX
    idle_session_seconds: float = IDLE_SESSION_SECONDS
    open_files: int | None = None
    """Number of open files that the system allows the process; None if unknown."""

    @property
    def connections_at_most(self) -> int:
        """Bound of open connections, which leaves descriptors to sessions, lists and searches."""
        if self.open_files is None:
            return self.connections
        return min(self.connections, self.open_files // CONNECTION_DESCRIPTORS_PART)

    @property
    def connections_of_one_process(self) -> int:
        """Bound of open connections of one process, which leaves some to other processes."""
        limit = self.connections_at_most
        if limit == self.connections:
            return self.connections_per_process
        return min(self.connections_per_process, max(1, limit // PROCESS_CONNECTIONS_PART))


DEFAULT_BOUNDS: Final = Bounds()
