;;; sessiond-client.el --- Connection to the sessiond daemon  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT

;;; Commentary:

;; One connection to the daemon, for every buffer and every package: requests with callbacks, and
;; subscriptions that go on over lost connections.  README.md has an example.
;;
;; Law 1: nothing here waits for the daemon, but `sessiond-client-wait', which has a limit.
;; Law 2: a request has one outcome: exactly one of its two callbacks is called, once.
;; Law 3: what has no answer when the connection is lost is sent again only if the daemon knows a
;; repetition, or if the request changes nothing.
;; Law 4: a subscription's handler gets each entry once and in order.
;;
;; JSON: an object is a plist with keywords, an array is a vector, and the constants are t,
;; `:false' and `:null'.  nil is the empty object.

;;; Code:

(require 'cl-lib)
(require 'eieio)
(require 'json)
(require 'jsonrpc)
(require 'subr-x)

(defgroup sessiond nil
  "Sessions of coding agents, shared through a daemon."
  :group 'tools
  :prefix "sessiond-")

(defcustom sessiond-program "sessiond"
  "Command that finds and starts the daemon."
  :type 'string)

(defcustom sessiond-start-daemon t
  "Whether a daemon is started when none listens."
  :type 'boolean)

(defcustom sessiond-timeout 30
  "Seconds after which a request without an answer is given up."
  :type 'number)

(defconst sessiond-client-version "0.1.1"
  "Version that the daemon is told.")

(defconst sessiond-client--frame-bytes-max (* 32 1024 1024)
  "Size of a frame that the daemon takes.")

(defconst sessiond-client--pause-min 0.1
  "Seconds before the first try to connect again.")

(defconst sessiond-client--pause-max 5.0
  "Limit of the pause between two tries, in seconds.")

(define-error 'sessiond-error "The sessiond daemon refused")

;;; JSON

(defun sessiond-client--decode (text)
  "Return the value of the JSON TEXT."
  (condition-case nil
      (json-parse-string text :object-type 'plist :null-object :null :false-object :false)
    ;; The fast reader refuses integers beyond 64 bits, NUL and half characters.
    (json-error (let ((json-object-type 'plist)
                      (json-array-type 'vector)
                      (json-key-type nil)
                      (json-null :null)
                      (json-false :false))
                  (json-read-from-string text)))))

(defun sessiond-client--encode-text (text)
  "Return the string TEXT as JSON."
  (let ((json (json-serialize text)))
    (if (multibyte-string-p json) json (decode-coding-string json 'utf-8-unix))))

(defun sessiond-client--encode-number (number)
  "Return NUMBER in the shortest spelling that has its value."
  (when (and (floatp number) (or (isnan number) (= (abs number) 1.0e+INF)))
    (signal 'wrong-type-argument (list 'json-value-p number)))
  (number-to-string number))

(defun sessiond-client-encode (value)
  "Return VALUE as JSON.
Signal an error if JSON has no spelling for VALUE."
  (cond
   ((null value) "{}")
   ((eq value t) "true")
   ((eq value :false) "false")
   ((eq value :null) "null")
   ((stringp value) (sessiond-client--encode-text value))
   ((numberp value) (sessiond-client--encode-number value))
   ((vectorp value) (concat "[" (mapconcat #'sessiond-client-encode value ",") "]"))
   ((and (consp value) (keywordp (car value)))
    (concat "{"
            (mapconcat (lambda (member)
                         (concat (sessiond-client--encode-text
                                  (substring (symbol-name (car member)) 1))
                                 ":" (sessiond-client-encode (cdr member))))
                       (sessiond-client--members value) ",")
            "}"))
   (t (signal 'wrong-type-argument (list 'json-value-p (type-of value))))))

(defun sessiond-client--members (plist)
  "Return the members of PLIST as pairs."
  (let (members)
    (while plist
      (unless (and (keywordp (car plist)) (consp (cdr plist)))
        (signal 'wrong-type-argument '(json-value-p cons)))
      (push (cons (car plist) (cadr plist)) members)
      (setq plist (cddr plist)))
    (nreverse members)))

(defun sessiond-client-true-p (value)
  "Return non-nil if VALUE, of a member, is there and neither false nor null."
  (not (memq value '(nil :false :null))))

(defun sessiond-client-new-id ()
  "Return a new id for an entry: 32 hex digits."
  (secure-hash 'md5 (format "%s %s %s %s" (random) (random) (emacs-pid) (float-time))))

;; Without this, each Emacs would make the same ids.
(random t)

;;; One socket

(defclass sessiond-client--socket (jsonrpc-connection)
  ((process :initform nil :documentation "The socket.")
   (is-sending :initform nil :documentation "Non-nil while Emacs waits for the daemon to take a request."))
  :documentation "Connection of jsonrpc.el over a Unix socket.
The process connections of jsonrpc.el read null and an empty object as one value.")

(cl-defstruct (sessiond-client--text (:constructor sessiond-client--text (json)))
  "Text that is JSON."
  json)

(cl-defmethod jsonrpc-connection-send ((link sessiond-client--socket)
                                       &key id method params &allow-other-keys)
  "Send a request over LINK, with the ID, METHOD and PARAMS."
  (let* ((body (format "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":%s,\"params\":%s}"
                       id (sessiond-client--encode-text (format "%s" method))
                       (sessiond-client--text-json params)))
         (bytes (encode-coding-string body 'utf-8-unix)))
    (setf (slot-value link 'is-sending) t)
    (unwind-protect
        (process-send-string (slot-value link 'process)
                             (concat (format "Content-Length: %d\r\n\r\n" (length bytes)) bytes))
      (setf (slot-value link 'is-sending) nil))))

(cl-defmethod jsonrpc-running-p ((link sessiond-client--socket))
  "Return non-nil if the socket of LINK is open."
  (process-live-p (slot-value link 'process)))

(cl-defmethod jsonrpc-shutdown ((link sessiond-client--socket))
  "Close the socket of LINK."
  (let* ((process (slot-value link 'process))
         (buffer (process-buffer process)))
    (set-process-sentinel process #'ignore)
    (set-process-filter process #'ignore)
    (delete-process process)
    (kill-buffer buffer)))

(defun sessiond-client--frame (process)
  "Take the next whole frame from the buffer of PROCESS; return its text, or nil."
  (with-current-buffer (process-buffer process)
    (goto-char (point-min))
    (unless (process-get process 'body-bytes)
      (let ((case-fold-search t))
        (when (re-search-forward "\\`Content-Length: *\\([0-9]+\\)\r\n\r\n" nil t)
          (process-put process 'body-bytes (string-to-number (match-string 1)))
          (delete-region (point-min) (point)))))
    (let ((bytes (process-get process 'body-bytes)))
      (when (and bytes (>= (buffer-size) bytes))
        (let* ((end (+ (point-min) bytes))
               (text (decode-coding-string (buffer-substring (point-min) end) 'utf-8-unix)))
          (process-put process 'body-bytes nil)
          (delete-region (point-min) end)
          text)))))

(defun sessiond-client--filter (process bytes)
  "Take BYTES from PROCESS; handle the frames that are whole now."
  (when (buffer-live-p (process-buffer process))
    (with-current-buffer (process-buffer process)
      (goto-char (point-max))
      (insert bytes))
    (let (text)
      (while (and (buffer-live-p (process-buffer process))
                  (setq text (sessiond-client--frame process)))
        (sessiond-client--receive (process-get process 'client) (process-get process 'link) text)))))

(defun sessiond-client--receive (client link text)
  "Handle the message TEXT that came to CLIENT over LINK."
  (let* ((message (sessiond-client--decode text))
         (method (plist-get message :method))
         (id (plist-get message :id)))
    (cond
     ((and method id))        ; A request: the client offered to answer none.
     (method (jsonrpc-connection-receive
              link (list :jsonrpc "2.0" :method method :params (plist-get message :params))))
     ((integerp id) (jsonrpc-connection-receive link message))
     ;; A frame was not taken.  Which one is not known, so each request is looked at again.
     (t (sessiond-client--lost client link)))))

(defun sessiond-client--guarded (function &rest arguments)
  "Call FUNCTION of another package with ARGUMENTS; report that it failed, without content."
  (when function
    (condition-case-unless-debug failure
        (apply function arguments)
      (error (message "sessiond: a callback failed: %s" (car failure))))))

;;; The client

(cl-defstruct (sessiond-client (:constructor sessiond-client--make)
                               (:conc-name sessiond-client--)
                               (:copier nil))
  "Client of the daemon: one connection, with what is to be done over the next one."
  place                 ; Path of the socket that was asked for, or nil.
  client-id
  access
  (state 'idle)         ; idle, finding, starting, waiting, greeting, ready, draining, closed.
  path
  link
  process               ; The process that finds or starts the daemon.
  timer
  (failures 0)
  (retry-after 0)
  (last-number 0)
  (requests (make-hash-table))
  (feeds (make-hash-table :test #'equal))
  catalog-handlers)

(cl-defstruct (sessiond-client--request (:copier nil))
  "Request without an answer."
  number method params is-read is-repeatable then catch timer retry-timer is-sent (refusals 0)
  is-doubtful)          ; Whether a connection was lost before it was answered.

(cl-defstruct (sessiond-client--feed (:copier nil))
  "Subscription of the connection to one session, which its listeners share."
  session-id options listeners
  token)                ; Of the last session/subscribe; nil while there is no subscription.

(cl-defstruct (sessiond-client--listener (:copier nil))
  "Subscription of a caller: a handler, and the place of the last event that was handled."
  client feed handler then catch
  timer                 ; Ends the wait for the first answer.
  seq epoch entry-id
  is-joined             ; Whether events are for this listener yet.
  is-replaying)         ; Whether session/synced is due.

(cl-defun sessiond-client-new (&key socket client-id access peer-uid)
  "Return a client of the daemon at SOCKET; nil is the user's daemon.
CLIENT-ID is what other clients see, ACCESS the access that is enough: write, read or status.
The client connects with its first request.

PEER-UID is refused: Emacs does not tell the user at the other end of a socket, so no other user
can be permitted."
  (when peer-uid
    (error "PEER-UID: Emacs does not tell the user at the other end of a socket, so none can be permitted"))
  (sessiond-client--make :place socket :client-id client-id :access access))

(defvar sessiond-client--shared nil
  "Client that all buffers share.")

(defun sessiond-client-shared ()
  "Return the client that all buffers and packages share."
  (unless (and sessiond-client--shared
               (not (eq (sessiond-client--state sessiond-client--shared) 'closed)))
    (setq sessiond-client--shared (sessiond-client-new)))
  sessiond-client--shared)

(defun sessiond-client--problem (kind text &rest data)
  "Return an error of the client itself, of KIND, with TEXT for a person and DATA."
  (list :code 0 :kind kind :message text :retryable nil :data data))

(defun sessiond-client--error-of (error)
  "Return the plist for callers of the ERROR of an answer."
  (let ((data (plist-get error :data)))
    (list :code (plist-get error :code)
          :kind (plist-get data :kind)
          :message (plist-get error :message)
          :retryable (sessiond-client-true-p (plist-get data :retryable))
          :data data)))

(defun sessiond-client-close (client)
  "End CLIENT: close its connection, and give up what has no answer."
  (sessiond-client--disconnect client)
  (setf (sessiond-client--state client) 'closed)
  (clrhash (sessiond-client--feeds client))
  (setf (sessiond-client--catalog-handlers client) nil)
  (sessiond-client--fail-all client (sessiond-client--problem "closed" "The client was closed")))

(defun sessiond-client--disconnect (client)
  "Drop the connection of CLIENT, and make no other one."
  (when-let ((timer (sessiond-client--timer client)))
    (cancel-timer timer)
    (setf (sessiond-client--timer client) nil))
  (when-let ((process (sessiond-client--process client)))
    (set-process-sentinel process #'ignore)
    (delete-process process)
    (setf (sessiond-client--process client) nil))
  (when-let ((link (sessiond-client--link client)))
    (setf (sessiond-client--link client) nil)
    (jsonrpc-shutdown link)))

;;; Connecting

(defun sessiond-client--is-wanted (client)
  "Return non-nil if CLIENT has a use for a connection."
  (or (> (hash-table-count (sessiond-client--requests client)) 0)
      (> (hash-table-count (sessiond-client--feeds client)) 0)
      (sessiond-client--catalog-handlers client)))

(defun sessiond-client--reach (client)
  "Begin to connect CLIENT, unless that has begun."
  (when (eq (sessiond-client--state client) 'idle)
    (sessiond-client--try client t)))

(defun sessiond-client--try (client may-start)
  "Connect CLIENT; where no daemon listens, start one if MAY-START."
  (setf (sessiond-client--timer client) nil)
  (unless (sessiond-client--path client)
    (setf (sessiond-client--path client)
          (or (sessiond-client--place client)
              (let ((path (getenv "SESSIOND_SOCKET")))
                (and path (not (string-empty-p path)) path)))))
  (if (not (sessiond-client--path client))
      (sessiond-client--find client)
    (let ((flaw (sessiond-client--flaw (sessiond-client--path client))))
      (if flaw
          (sessiond-client--refuse client flaw)
        (condition-case nil
            (sessiond-client--connect client)
          (file-error
           (if (and may-start sessiond-start-daemon)
               (sessiond-client--start client)
             (sessiond-client--pause client))))))))

(defun sessiond-client--pause (client)
  "Try to connect CLIENT again after a pause that grows."
  (setf (sessiond-client--state client) 'waiting
        (sessiond-client--timer client)
        (run-at-time (max (sessiond-client--backoff (sessiond-client--failures client))
                          (sessiond-client--retry-after client))
                     nil #'sessiond-client--try client t))
  (cl-incf (sessiond-client--failures client))
  (setf (sessiond-client--retry-after client) 0))

(defun sessiond-client--backoff (failures)
  "Return the seconds to wait after so many FAILURES."
  (min sessiond-client--pause-max (* sessiond-client--pause-min (expt 2 (min failures 10)))))

(defun sessiond-client--run (client name words then)
  "Run the daemon's command with WORDS for CLIENT in a process NAME.
Call THEN with the exit code and the output."
  (let* ((output (generate-new-buffer " *sessiond command*"))
         (default-directory (expand-file-name "~/"))
         (place (sessiond-client--place client))
         (process-environment (if place
                                  (cons (concat "SESSIOND_SOCKET=" place) process-environment)
                                process-environment)))
    (condition-case failure
        (setf (sessiond-client--process client)
              (make-process
               :name name :buffer output :noquery t :connection-type 'pipe
               :command (cons sessiond-program words)
               :sentinel
               (lambda (process _event)
                 (unless (process-live-p process)
                   (setf (sessiond-client--process client) nil)
                   (let ((text (with-current-buffer output (string-trim (buffer-string)))))
                     (kill-buffer output)
                     (funcall then (process-exit-status process) text))))))
      (file-error
       (kill-buffer output)
       (funcall then 127 (error-message-string failure))))))

(defun sessiond-client--find (client)
  "Ask the daemon's command where the socket of CLIENT is."
  (setf (sessiond-client--state client) 'finding)
  (sessiond-client--run
   client "sessiond-sockname" '("sockname")
   (lambda (code text)
     (if (not (eql code 0))
         (sessiond-client--cannot-start client text)
       (setf (sessiond-client--path client) (car (last (split-string text "\n"))))
       (sessiond-client--try client t)))))

(defun sessiond-client--start (client)
  "Start the daemon of CLIENT, then connect."
  (setf (sessiond-client--state client) 'starting)
  (sessiond-client--run
   client "sessiond-start" '("start")
   (lambda (code text)
     (if (eql code 0)
         (sessiond-client--try client nil)
       (sessiond-client--cannot-start client text)))))

(defun sessiond-client--cannot-start (client text)
  "Fail the requests of CLIENT, since no daemon can be started, for the reason TEXT."
  (sessiond-client--give-up-all
   client (sessiond-client--problem "cannot_start" (format "No daemon: %s" text))))

(defun sessiond-client--give-up-all (client error)
  "Fail the requests of CLIENT with ERROR, since a try to connect was in vain."
  (setf (sessiond-client--state client) 'waiting)
  (sessiond-client--fail-all client error)
  (if (sessiond-client--is-wanted client)
      (sessiond-client--pause client)
    (setf (sessiond-client--state client) 'idle)))

;; Emacs does not tell the user at the other end of a socket, and opens no descriptor of a folder.
;; So the folder of the socket must be this user's alone, and nobody else may put another one there.

(defun sessiond-client--own-p (file)
  "Return non-nil if FILE belongs to this user or to root."
  (memql (file-attribute-user-id (file-attributes file 'integer)) (list (user-uid) 0)))

(defun sessiond-client--of-another (file &optional name)
  "Return the flaw of FILE, called NAME, that it belongs to another user."
  (format "%s belongs to another user (uid %d)" (or name file)
          (file-attribute-user-id (file-attributes file 'integer))))

(defun sessiond-client--flaw-of-way (folder)
  "Return why another user could put another folder in the place of FOLDER, or nil."
  (let ((above (directory-file-name (file-name-directory folder))))
    (unless (equal above folder)
      (let ((modes (file-modes above 'nofollow)))
        (cond
         ((not (sessiond-client--own-p above)) (sessiond-client--of-another above))
         ((and (eq t (file-attribute-type (file-attributes above)))
               (/= 0 (logand modes #o022)) (= 0 (logand modes #o1000)))
          (format "%s has the mode %04o: other users may write to it" above modes))
         (t (sessiond-client--flaw-of-way above)))))))

(defun sessiond-client--flaw (path)
  "Return why another user may listen on the socket PATH, or nil.
A folder that is missing has no flaw: nothing listens there."
  (let* (file-name-handler-alist
         (file (expand-file-name path))
         (folder (directory-file-name (file-name-directory file)))
         (attributes (file-attributes folder 'integer)))
    (cond
     ((not attributes) nil)
     ((not (eq t (file-attribute-type attributes)))
      (format "%s is a link, or no folder" folder))
     ((/= (file-attribute-user-id attributes) (user-uid)) (sessiond-client--of-another folder))
     ((/= #o700 (logand #o777 (file-modes folder 'nofollow)))
      (format "%s has the mode %04o in place of 0700" folder (file-modes folder 'nofollow)))
     ((sessiond-client--flaw-of-way folder))
     ((sessiond-client--flaw-of-way (file-truename folder)))
     ((not (file-attributes file)) nil)
     ((stringp (file-attribute-type (file-attributes file))) "the socket is a link")
     ((not (sessiond-client--own-p file)) (sessiond-client--of-another file "the socket")))))

(defun sessiond-client--refuse (client flaw)
  "Fail the requests of CLIENT, since another user may listen on its socket: FLAW is why."
  (sessiond-client--give-up-all
   client
   (sessiond-client--problem
    "foreign_socket"
    (format (concat "Nothing was sent to %s, for another user may listen there: %s; mend that, or "
                    "name a socket in a folder of your own with mode 0700")
            (sessiond-client--path client) flaw))))

(defun sessiond-client--make-link (client)
  "Return a connection object of jsonrpc.el without a log, for CLIENT."
  (let* ((class 'sessiond-client--socket)
         (dispatch (lambda (_link method params)
                     (sessiond-client--notified client method params)))
         (options (list :name "sessiond" :notification-dispatcher dispatch))
         (slots (mapcar #'eieio-slot-descriptor-name (eieio-class-slots class))))
    ;; Emacs 30 has another name for the same option.
    (apply #'make-instance class
           (append options (if (memq '-events-buffer-config slots)
                               '(:events-buffer-config (:size 0 :format full))
                             '(:events-buffer-scrollback-size 0))))))

(defun sessiond-client--connect (client)
  "Connect CLIENT to the socket at its path; signal a `file-error' if nothing listens."
  (let* ((buffer (generate-new-buffer " *sessiond connection*" t))
         (process (condition-case failure
                      (make-network-process
                       :name "sessiond" :family 'local :service (sessiond-client--path client)
                       :coding 'binary :noquery t :buffer buffer
                       :filter #'sessiond-client--filter)
                    (error (kill-buffer buffer)
                           (signal (car failure) (cdr failure)))))
         (link (sessiond-client--make-link client)))
    (with-current-buffer buffer
      (set-buffer-multibyte nil)
      (buffer-disable-undo))
    (setf (slot-value link 'process) process)
    (process-put process 'client client)
    (process-put process 'link link)
    (set-process-sentinel process (lambda (process _event)
                                    (unless (process-live-p process)
                                      (sessiond-client--lost client link))))
    (setf (sessiond-client--link client) link)
    (sessiond-client--greet client link)))

(defun sessiond-client--greet (client link)
  "Introduce CLIENT over the new LINK, then send what is to be done."
  (setf (sessiond-client--state client) 'greeting)
  (let ((params (list :client_info (list :name "emacs" :version sessiond-client-version))))
    (when-let ((client-id (sessiond-client--client-id client)))
      (setq params (append params (list :client_id client-id))))
    (when-let ((access (sessiond-client--access client)))
      (setq params (append params (list :access access))))
    (sessiond-client--ask
     client "initialize" params
     (lambda (result)
       (setf (sessiond-client--state client) 'ready
             (sessiond-client--failures client) 0)
       (sessiond-client--tell-another result)
       (sessiond-client--resume client))
     (lambda (error)
       (sessiond-client--lost client link)
       (unless (plist-get error :retryable)
         (sessiond-client--fail-all client error))))))

(defvar sessiond-client--told nil
  "The daemon of another version that was told of last.")

(defun sessiond-client--tell-another (result)
  "Say once that the daemon that answered RESULT is of another version."
  (let ((version (plist-get (plist-get result :server_info) :version))
        (daemon (plist-get result :instance_id)))
    (unless (or (null version) (equal version sessiond-client-version)
                (equal daemon sessiond-client--told))
      (setq sessiond-client--told daemon)
      (message "sessiond: the running daemon is %s (%s) than this package (%s): `sessiond restart' replaces it"
               (if (ignore-errors (version< sessiond-client-version version)) "newer" "older")
               version sessiond-client-version))))

(defun sessiond-client--ask (client method params then catch)
  "Send METHOD with PARAMS over the present connection of CLIENT, once.
THEN gets the result, CATCH the error.  Neither is called if the connection is lost."
  (sessiond-client--ask-text client method (sessiond-client--text (sessiond-client-encode params))
                             then catch))

(defun sessiond-client--ask-text (client method text then catch)
  "Send METHOD with the params TEXT over the present connection of CLIENT, once.
THEN gets the result, CATCH the error."
  (let* ((link (sessiond-client--link client))
         (is-current (lambda () (eq link (sessiond-client--link client)))))
    (condition-case nil
        (jsonrpc-async-request
         link method text :timeout nil
         :success-fn (lambda (result) (when (funcall is-current) (funcall then result)))
         :error-fn (lambda (error)
                     (when (funcall is-current)
                       (funcall catch (sessiond-client--error-of error)))))
      ;; The daemon is gone, and the sentinel has not run yet.
      ((file-error error)
       (when (funcall is-current)
         (run-at-time 0 nil #'sessiond-client--lost client link))))))

(defun sessiond-client--lost (client link)
  "Record that the connection LINK of CLIENT is gone; connect again if there is a use."
  (when (and link (eq link (sessiond-client--link client)))
    (setf (sessiond-client--link client) nil
          (sessiond-client--state client) 'waiting)
    (jsonrpc-shutdown link)
    (dolist (request (sessiond-client--in-order client))
      (when (sessiond-client--request-is-sent request)
        (setf (sessiond-client--request-is-doubtful request)
              (sessiond-client--may-be-done-p request)
              (sessiond-client--request-is-sent request) nil)
        (unless (sessiond-client--request-is-repeatable request)
          (sessiond-client--settle
           client request nil
           (sessiond-client--problem
            "connection_lost"
            "The connection was lost, and the change may have been made; look before you try again"
            :outcome_unknown t)))))
    (maphash (lambda (_id feed) (setf (sessiond-client--feed-token feed) nil))
             (sessiond-client--feeds client))
    (if (sessiond-client--is-wanted client)
        (sessiond-client--pause client)
      (setf (sessiond-client--state client) 'idle))))

(defun sessiond-client--resume (client)
  "Subscribe again, and send again what has no answer, over the new connection of CLIENT."
  (when (sessiond-client--catalog-handlers client)
    (sessiond-client--watch-catalog client t))
  (maphash (lambda (_id feed) (sessiond-client--subscribe-feed client feed))
           (sessiond-client--feeds client))
  (dolist (request (sessiond-client--in-order client))
    (sessiond-client--send client request)))

;;; Requests

(defconst sessiond-client--page-messages-max 10000
  "Number of messages of a page of a context, at most.")

(defconst sessiond-client--reads
  '("server/ping" "server/info" "server/stats" "session/open" "session/close" "session/get"
    "session/list" "session/search" "session/resolve" "catalog/forest" "catalog/roots"
    "state/get" "state/all" "state/list" "secret/list" "session/labels" "session/presence"
    "session/heads" "session/entry" "session/resolve_entries" "session/entries" "session/path"
    "session/tree" "session/turns" "session/build_context" "session/usage" "session/stats"
    "session/plan_compaction" "session/plan_branch_summary" "session/plan_merge" "session/flush"
    "session/brief" "session/queue" "session/trash" "session/verify" "rpc.discover"
    "build_context")
  "Methods that change nothing, or nothing that a second time would change again.")

(defconst sessiond-client--safe
  '("scope/resolve" "scope/switch" "secret/get" "session/acquire" "session/archive"
    "session/delete" "session/release" "session/renew" "session/unarchive")
  "Methods that do once what they are asked twice, though they are no reads.")

(defun sessiond-client--read-p (method params)
  "Return non-nil if METHOD with PARAMS is a read."
  (and (member method sessiond-client--reads)
       (not (sessiond-client-true-p (plist-get params :create)))))

(defun sessiond-client--repeatable-p (method params)
  "Return non-nil if METHOD with PARAMS may be sent twice."
  (or (sessiond-client--read-p method params)
      (member method sessiond-client--safe)
      (sessiond-client-true-p (plist-get params :idempotency_key))
      (member method '("append" "session/append"))
      (and (equal method "session/create")
           (equal (plist-get params :if_exists) "open")
           (plist-member params :session_id))))

(defun sessiond-client--with-id (entry)
  "Return ENTRY with an id of its own."
  (if (and (consp entry) (not (plist-member entry :id)))
      (append entry (list :id (sessiond-client-new-id)))
    entry))

(defun sessiond-client--with-ids (params)
  "Return the PARAMS of an append, each entry under an id, so that a repetition is known."
  (let ((entry (plist-get params :entry))
        (entries (plist-get params :entries)))
    (cond
     ((plist-member params :idempotency_key) params)
     ((and (plist-member params :message) (not entry) (not entries))
      (append (sessiond-client--without params :message)
              (list :entry (sessiond-client--with-id
                            (list :type "message" :message (plist-get params :message))))))
     (entry (plist-put (copy-sequence params) :entry (sessiond-client--with-id entry)))
     ((vectorp entries)
      (plist-put (copy-sequence params) :entries
                 (vconcat (mapcar #'sessiond-client--with-id entries))))
     (t params))))

(defun sessiond-client--without (plist member)
  "Return PLIST without MEMBER."
  (cl-loop for (key value) on plist by #'cddr
           unless (eq key member) append (list key value)))

(cl-defun sessiond-client-request (client method params &key then catch)
  "Ask the daemon of CLIENT for METHOD, a string, with PARAMS, a plist.
Call THEN with the result, or CATCH with the error, a plist of :code, :kind, :message,
:retryable and :data.  Return at once.

An append gets ids before it is first sent.  Appends and reads are sent again after a lost
connection.  Any other change ends with an error of the kind \"connection_lost\" then."
  (when (eq (sessiond-client--state client) 'closed)
    (error "This sessiond client is closed"))
  (when (member method '("append" "session/append"))
    (setq params (sessiond-client--with-ids params)))
  (let* ((text (sessiond-client-encode params))
         (request (make-sessiond-client--request
                   :number (cl-incf (sessiond-client--last-number client))
                   :method method :params (sessiond-client--text text)
                   :is-read (sessiond-client--read-p method params)
                   :is-repeatable (sessiond-client--repeatable-p method params)
                   :then then :catch catch)))
    (puthash (sessiond-client--request-number request) request
             (sessiond-client--requests client))
    (setf (sessiond-client--request-timer request)
          (run-at-time
           (if (> (+ (string-bytes text) 200) sessiond-client--frame-bytes-max)
               0
             sessiond-timeout)
           nil #'sessiond-client--give-up client request (string-bytes text)))
    (cond
     ((> (+ (string-bytes text) 200) sessiond-client--frame-bytes-max))
     ((eq (sessiond-client--state client) 'ready) (sessiond-client--send client request))
     (t (sessiond-client--reach client)))
    nil))

(defun sessiond-client--no-answer ()
  "Return the error of a question that got no answer in time."
  (sessiond-client--problem
   "timeout" "The daemon did not answer in time; see `sessiond status', then try again"))

(defun sessiond-client--give-up (client request bytes)
  "End REQUEST of CLIENT without an answer.
The request of so many BYTES is too large, or the time for an answer is over."
  (sessiond-client--settle
   client request nil
   (if (> (+ bytes 200) sessiond-client--frame-bytes-max)
       (list :code -32014 :kind "too_large" :message "The request is too large" :retryable nil
             :data (list :kind "too_large" :limit sessiond-client--frame-bytes-max))
     (if (sessiond-client--may-be-done-p request)
         (sessiond-client--problem
          "timeout" "The daemon did not answer in time; look whether it was done before you try again"
          :outcome_unknown t)
       (sessiond-client--no-answer))))
  ;; Emacs waits for good where a daemon that hangs takes only a part of a request, and runs timers meanwhile.
  (when-let ((link (sessiond-client--link client)))
    (when (slot-value link 'is-sending)
      (sessiond-client--lost client link))))

(defun sessiond-client--may-be-done-p (request)
  "Return non-nil if the daemon may have changed something for REQUEST, or may yet do so."
  (or (sessiond-client--request-is-doubtful request)
      (and (sessiond-client--request-is-sent request)
           (not (sessiond-client--request-is-read request)))))

(defun sessiond-client--in-order (client)
  "Return the requests of CLIENT without an answer, the oldest first."
  (sort (hash-table-values (sessiond-client--requests client))
        (lambda (one other)
          (< (sessiond-client--request-number one) (sessiond-client--request-number other)))))

(defun sessiond-client--send (client request)
  "Send REQUEST over the connection of CLIENT."
  (when-let ((timer (sessiond-client--request-retry-timer request)))
    (cancel-timer timer)
    (setf (sessiond-client--request-retry-timer request) nil))
  (setf (sessiond-client--request-is-sent request) t)
  (sessiond-client--ask-text
   client (sessiond-client--request-method request) (sessiond-client--request-params request)
   (lambda (result) (sessiond-client--settle client request result nil))
   (lambda (error) (sessiond-client--refused client request error))))

(defun sessiond-client--refused (client request error)
  "End REQUEST of CLIENT with ERROR, or send it again after a pause if nothing was done."
  (if (not (member (plist-get error :kind) '("draining" "overloaded")))
      (sessiond-client--settle client request nil error)
    (setf (sessiond-client--request-is-sent request) nil
          (sessiond-client--request-retry-timer request)
          (run-at-time (max (sessiond-client--backoff (sessiond-client--request-refusals request))
                            (sessiond-client--seconds (plist-get error :data)))
                       nil #'sessiond-client--send-again client request))
    (cl-incf (sessiond-client--request-refusals request))))

(defun sessiond-client--send-again (client request)
  "Send REQUEST over the connection of CLIENT, if there is one; the next connection sends it too."
  (setf (sessiond-client--request-retry-timer request) nil)
  (when (and (eq (sessiond-client--state client) 'ready)
             (gethash (sessiond-client--request-number request)
                      (sessiond-client--requests client)))
    (sessiond-client--send client request)))

(defun sessiond-client--seconds (data)
  "Return the pause that DATA of an error or a notification asks for, in seconds."
  (let ((milliseconds (plist-get data :retry_after_ms)))
    (if (numberp milliseconds) (/ milliseconds 1000.0) 0)))

(defun sessiond-client--settle (client request result error)
  "End REQUEST of CLIENT with RESULT, or with ERROR if that is non-nil."
  (let ((number (sessiond-client--request-number request))
        (requests (sessiond-client--requests client)))
    (when (gethash number requests)
      (remhash number requests)
      (dolist (timer (list (sessiond-client--request-timer request)
                           (sessiond-client--request-retry-timer request)))
        (when timer (cancel-timer timer)))
      (if error
          (sessiond-client--guarded (sessiond-client--request-catch request) error)
        (sessiond-client--guarded (sessiond-client--request-then request) result)))))

(defun sessiond-client--fail-all (client error)
  "End each request of CLIENT with ERROR."
  (dolist (request (sessiond-client--in-order client))
    (sessiond-client--settle
     client request nil
     (if (sessiond-client--request-is-doubtful request)
         ;; An earlier daemon may have had the request.
         (plist-put (copy-sequence error) :data
                    (append (list :outcome_unknown t) (plist-get error :data)))
       error))))

(defun sessiond-client-wait (client method params &optional seconds)
  "Ask the daemon of CLIENT for METHOD with PARAMS; wait at most SECONDS, and return the result.
Signal a `sessiond-error' with the error's plist.  For a command whose user waits for the result."
  (let ((deadline (+ (float-time) (or seconds 5)))
        outcome)
    (sessiond-client-request client method params
                             :then (lambda (result) (setq outcome (list result)))
                             :catch (lambda (error) (setq outcome (list nil error))))
    (while (and (not outcome) (< (float-time) deadline))
      (accept-process-output nil 0.05))
    (cond
     ((not outcome)
      (signal 'sessiond-error
              (list "The daemon did not answer in time; see `sessiond status', then try again")))
     ((cdr outcome)
      (signal 'sessiond-error (list (plist-get (cadr outcome) :message) (cadr outcome))))
     (t (car outcome)))))

;;; Methods by name

(cl-defun sessiond-client-create (client cwd &key session-id title persist then catch)
  "Create a session of the project CWD over CLIENT.
SESSION-ID and TITLE are the session's; PERSIST is \"immediate\" unless said otherwise.  With a
SESSION-ID, a session that exists is opened.  THEN gets the result, CATCH the error."
  (sessiond-client-request
   client "session/create"
   (append (list :cwd cwd :persist (or persist "immediate")
                 :session_id (or session-id (sessiond-client-new-id)) :if_exists "open")
           (and title (list :title title)))
   :then then :catch catch))

(cl-defun sessiond-client-open (client session-id &key then catch)
  "Open SESSION-ID over CLIENT: THEN gets the session, CATCH the error."
  (sessiond-client-request client "session/open" (list :session_id session-id)
                           :then then :catch catch))

(cl-defun sessiond-client-append (client session-id content &key role head id then catch)
  "Append a message with the text CONTENT to SESSION-ID over CLIENT.
The message is the user's unless ROLE says otherwise; HEAD is the head to append to.  ID is the
entry's id, from `sessiond-client-new-id': an append that is called again with the same ID and
content is stored once.  THEN gets the result, CATCH the error."
  (sessiond-client-request
   client "session/append"
   (append (list :session_id session-id
                 :entry (list :type "message" :id (or id (sessiond-client-new-id))
                              :message (list :role (or role "user") :content content)))
           (and head (list :head head)))
   :then then :catch catch))

(cl-defun sessiond-client-branch (client session-id entry-id &key head expected then catch)
  "Put HEAD of SESSION-ID at ENTRY-ID over CLIENT, and make the head if there is none.
ENTRY-ID is `:null' before the first entry; HEAD is \"main\" unless said otherwise.  EXPECTED is a
plist of :leaf_id and :seq that must hold.  THEN gets the result, CATCH the error."
  (sessiond-client-request
   client "session/branch"
   (append (list :session_id session-id :entry_id entry-id)
           (and head (list :head head))
           (and expected (list :expected expected)))
   :then then :catch catch))

(cl-defun sessiond-client-label (client session-id entry-id label &key then catch)
  "Set the LABEL of ENTRY-ID of SESSION-ID over CLIENT; the empty text clears the label.
THEN gets the result, CATCH the error."
  (sessiond-client-request client "session/label"
                           (list :session_id session-id :entry_id entry-id :label label)
                           :then then :catch catch))

(cl-defun sessiond-client-heads (client session-id &key then catch)
  "Ask CLIENT for the heads of SESSION-ID: THEN gets the result, CATCH the error."
  (sessiond-client-request client "session/heads" (list :session_id session-id)
                           :then then :catch catch))

(cl-defun sessiond-client-context (client session-id &key head then catch)
  "Ask CLIENT what a model is to see of HEAD of SESSION-ID.
THEN gets the result, CATCH the error.  A context that is larger than an answer is asked for by
pages, and THEN gets the whole of the context."
  (let ((params (append (list :session_id session-id) (and head (list :head head)))))
    (sessiond-client-request
     client "session/build_context" params :then then
     :catch (lambda (problem)
              (if (sessiond-client-true-p (plist-get (plist-get problem :data) :pages))
                  (sessiond-client--context-pages client params nil then catch)
                (when catch (funcall catch problem)))))))

(defun sessiond-client--context-pages (client params before then catch)
  "Ask CLIENT for the pages of the context that PARAMS name, behind the pages BEFORE.
THEN gets the whole context, CATCH the error."
  (sessiond-client-request
   client "session/build_context"
   (append params (list :limit sessiond-client--page-messages-max)
           (and before (list :cursor (plist-get (car before) :next_cursor))))
   :catch catch
   :then (lambda (page)
           (let ((pages (cons page before)))
             (if (sessiond-client-true-p (plist-get page :next_cursor))
                 (sessiond-client--context-pages client params pages then catch)
               (let ((whole (sessiond-client--without (car (last pages)) :next_cursor)))
                 (dolist (list '(:messages :sources))
                   (setq whole (plist-put whole list
                                          (apply #'vconcat (mapcar (lambda (one) (plist-get one list))
                                                                   (reverse pages))))))
                 (when then (funcall then whole))))))))

(cl-defun sessiond-client-list (client &key cwd limit then catch)
  "Ask CLIENT for the sessions of the project CWD, or for all, at most LIMIT.
THEN gets the result, CATCH the error."
  (sessiond-client-request client "session/list"
                           (append (and cwd (list :cwd cwd)) (and limit (list :limit limit)))
                           :then then :catch catch))

;;; Subscriptions

(cl-defun sessiond-client-subscribe (client session-id handler &key after options then catch)
  "Call HANDLER with the method and the params of each event of SESSION-ID over CLIENT.
AFTER is the place to begin behind, a plist of :seq, :epoch and :entry_id; nil is from now on.
OPTIONS is a plist of :types, :heads, :bodies and :signals.  THEN gets the answer to the first
subscription, CATCH the error; no answer in `sessiond-timeout' is one.  Return the subscription.

Over lost connections the subscription goes on where it was: each entry comes once and in order.
After \"session/replaced\", drop what is held; everything follows.  After \"session/closed\" the
subscription is over.  The subscriptions of one session must have the same OPTIONS."
  (let* ((feeds (sessiond-client--feeds client))
         (feed (or (gethash session-id feeds)
                   (puthash session-id (make-sessiond-client--feed
                                        :session-id session-id :options options)
                            feeds)))
         (listener (make-sessiond-client--listener
                    :client client :feed feed :handler handler :then then :catch catch
                    :seq (plist-get after :seq) :epoch (plist-get after :epoch)
                    :entry-id (plist-get after :entry_id))))
    (unless (equal options (sessiond-client--feed-options feed))
      (error "This session has a subscription with other options"))
    (setf (sessiond-client--feed-listeners feed)
          (append (sessiond-client--feed-listeners feed) (list listener))
          (sessiond-client--listener-timer listener)
          (run-at-time sessiond-timeout nil #'sessiond-client--expire listener))
    (if (eq (sessiond-client--state client) 'ready)
        (sessiond-client--subscribe-feed client feed)
      (sessiond-client--reach client))
    listener))

(defun sessiond-client--expire (listener)
  "End LISTENER, which got no first answer in time."
  (sessiond-client-unsubscribe listener)
  (sessiond-client--guarded (sessiond-client--listener-catch listener)
                            (sessiond-client--no-answer)))

(defun sessiond-client-cursor (subscription)
  "Return the place of SUBSCRIPTION, a plist of :seq, :epoch and :entry_id.
A later subscription may begin behind that place."
  (append (list :seq (or (sessiond-client--listener-seq subscription) 0))
          (when-let ((epoch (sessiond-client--listener-epoch subscription)))
            (list :epoch epoch))
          (when-let ((entry-id (sessiond-client--listener-entry-id subscription)))
            (list :entry_id entry-id))))

(defun sessiond-client-unsubscribe (subscription)
  "End SUBSCRIPTION."
  (let* ((client (sessiond-client--listener-client subscription))
         (feed (sessiond-client--listener-feed subscription))
         (session-id (sessiond-client--feed-session-id feed))
         (rest (remq subscription (sessiond-client--feed-listeners feed))))
    (cancel-timer (sessiond-client--listener-timer subscription))
    (setf (sessiond-client--feed-listeners feed) rest
          (sessiond-client--listener-is-joined subscription) nil)
    (unless (or rest (not (eq feed (gethash session-id (sessiond-client--feeds client)))))
      (remhash session-id (sessiond-client--feeds client))
      (when (and (sessiond-client--feed-token feed)
                 (eq (sessiond-client--state client) 'ready))
        (sessiond-client--ask client "session/unsubscribe" (list :session_id session-id)
                              #'ignore #'ignore)))))

(defun sessiond-client--furthest-behind (feed)
  "Return the listener of FEED that has to be told the most, or nil if all begin now."
  (let (found)
    (dolist (listener (sessiond-client--feed-listeners feed) found)
      (when-let ((seq (sessiond-client--listener-seq listener)))
        (when (or (not found) (< seq (sessiond-client--listener-seq found)))
          (setq found listener))))))

(defun sessiond-client--subscribe-feed (client feed)
  "Subscribe FEED over the connection of CLIENT, from the place that the listeners need."
  (let* ((token (list nil))
         (listeners (sessiond-client--feed-listeners feed))
         (behind (sessiond-client--furthest-behind feed))
         (was-live (sessiond-client--feed-token feed))
         (is-latest (lambda () (eq token (sessiond-client--feed-token feed)))))
    (setf (sessiond-client--feed-token feed) token)
    (sessiond-client--ask
     client "session/subscribe"
     (append (list :session_id (sessiond-client--feed-session-id feed))
             (and behind (list :after (sessiond-client-cursor behind)))
             (sessiond-client--feed-options feed))
     (lambda (result)
       (when (funcall is-latest)
         (sessiond-client--joined client feed listeners behind was-live result)))
     (lambda (error)
       (when (funcall is-latest)
         (sessiond-client--not-joined client feed listeners was-live error))))))

(defun sessiond-client--joined (client feed listeners behind was-live result)
  "Begin the LISTENERS of FEED of CLIENT with the answer RESULT.
BEHIND is the listener whose cursor was sent; WAS-LIVE says whether others had events already."
  (let* ((epoch (plist-get result :epoch))
         (last-seq (plist-get result :seq))
         (replaced (plist-get result :replaced))
         (begin (if replaced 0 (and behind (sessiond-client--listener-seq behind))))
         (is-again nil))
    (dolist (listener listeners)
      (unless (and was-live (sessiond-client--listener-is-joined listener))
        (sessiond-client--join listener epoch last-seq
                               (and replaced (eq listener behind) replaced) result))
      (when (and begin (< (sessiond-client--listener-seq listener) begin))
        (setq is-again t)))
    (when (and is-again (memq (car listeners) (sessiond-client--feed-listeners feed)))
      (sessiond-client--subscribe-feed client feed))))

(defun sessiond-client--join (listener epoch last-seq replaced result)
  "Give LISTENER the EPOCH and the place that the answer RESULT told; LAST-SEQ is the last line.
REPLACED is why the cursor of the listener did not fit, or nil."
  (let* ((seq (sessiond-client--listener-seq listener))
         (known (sessiond-client--listener-epoch listener))
         (reason (cond (replaced)
                       ((not seq) nil)
                       ((> seq last-seq) "ahead")
                       ((and known (not (sessiond-client--listener-entry-id listener))
                             (> seq 0) (not (equal known epoch)))
                        "epoch")))
         (then (sessiond-client--listener-then listener)))
    (cancel-timer (sessiond-client--listener-timer listener))
    (setf (sessiond-client--listener-is-joined listener) t
          (sessiond-client--listener-then listener) nil
          (sessiond-client--listener-catch listener) nil
          (sessiond-client--listener-is-replaying listener) (and seq t)
          (sessiond-client--listener-epoch listener) epoch)
    (unless seq
      (setf (sessiond-client--listener-seq listener) last-seq))
    (when then
      (sessiond-client--guarded then result))
    (when reason
      (sessiond-client--begin-anew
       listener (list :session_id (sessiond-client--feed-session-id
                                   (sessiond-client--listener-feed listener))
                      :epoch epoch :reason reason)))))

(defun sessiond-client--begin-anew (listener params)
  "Tell LISTENER by PARAMS that the file is another one, and put it before the first entry."
  (setf (sessiond-client--listener-seq listener) 0
        (sessiond-client--listener-epoch listener) (plist-get params :epoch)
        (sessiond-client--listener-entry-id listener) nil
        (sessiond-client--listener-is-replaying listener) t)
  (sessiond-client--guarded (sessiond-client--listener-handler listener)
                            "session/replaced" params))

(defun sessiond-client--not-joined (client feed listeners was-live error)
  "Handle the ERROR that the subscription of FEED of CLIENT with LISTENERS got.
WAS-LIVE says whether an earlier subscription of the connection goes on."
  (if (plist-get error :retryable)
      (sessiond-client--subscribe-later client feed (sessiond-client--seconds
                                                     (plist-get error :data)))
    (dolist (listener listeners)
      (cond
       ((not (sessiond-client--listener-is-joined listener))
        (sessiond-client--drop listener)
        (sessiond-client--guarded (sessiond-client--listener-catch listener) error))
       ((not was-live)
        (sessiond-client--drop listener)
        (sessiond-client--guarded
         (sessiond-client--listener-handler listener) "session/closed"
         (list :session_id (sessiond-client--feed-session-id feed)
               :reason (plist-get error :kind))))))))

(defun sessiond-client--drop (listener)
  "Take LISTENER out of its feed; the connection has no subscription for the listener."
  (let* ((feed (sessiond-client--listener-feed listener))
         (feeds (sessiond-client--feeds (sessiond-client--listener-client listener)))
         (rest (remq listener (sessiond-client--feed-listeners feed))))
    (cancel-timer (sessiond-client--listener-timer listener))
    (setf (sessiond-client--feed-listeners feed) rest)
    (unless rest
      (remhash (sessiond-client--feed-session-id feed) feeds))))

(defun sessiond-client--subscribe-later (client feed seconds)
  "Subscribe FEED of CLIENT again after SECONDS, or a short pause."
  (setf (sessiond-client--feed-token feed) nil)
  (run-at-time
   (max seconds 0.5) nil
   (lambda ()
     (when (and (eq (sessiond-client--state client) 'ready)
                (not (sessiond-client--feed-token feed))
                (sessiond-client--feed-listeners feed))
       (sessiond-client--subscribe-feed client feed)))))

(defun sessiond-client--notified (client method params)
  "Handle the notification METHOD, a symbol, with PARAMS that came to CLIENT."
  (let ((name (symbol-name method))
        (feed (gethash (plist-get params :session_id) (sessiond-client--feeds client))))
    (cond
     ((equal name "server/draining")
      (setf (sessiond-client--retry-after client) (sessiond-client--seconds params)
            (sessiond-client--state client) 'draining))
     ((equal name "catalog/changed")
      (dolist (handler (sessiond-client--catalog-handlers client))
        (sessiond-client--guarded handler params)))
     ((not feed))
     ((equal name "session/closed") (sessiond-client--closed client feed params))
     (t (dolist (listener (sessiond-client--feed-listeners feed))
          (when (sessiond-client--listener-is-joined listener)
            (sessiond-client--tell listener name params)))))))

(defun sessiond-client--closed (client feed params)
  "Handle the end of the subscription of FEED of CLIENT, with the PARAMS of the event."
  (if (not (member (plist-get params :reason) '("deleted" "forgotten")))
      (sessiond-client--subscribe-later client feed 0)
    (dolist (listener (sessiond-client--feed-listeners feed))
      (sessiond-client--drop listener)
      (sessiond-client--guarded (sessiond-client--listener-handler listener)
                                "session/closed" params))))

(defun sessiond-client--tell (listener name params)
  "Hand the notification NAME with PARAMS to LISTENER, unless the listener had that entry."
  (let ((handler (sessiond-client--listener-handler listener))
        (seq (plist-get params :seq)))
    (pcase name
      ("session/event"
       (when (> seq (sessiond-client--listener-seq listener))
         (setf (sessiond-client--listener-seq listener) seq
               (sessiond-client--listener-epoch listener) (plist-get params :epoch)
               (sessiond-client--listener-entry-id listener)
               (plist-get (plist-get params :entry) :id))
         (sessiond-client--guarded handler name params)))
      ("session/synced"
       (when (> seq (sessiond-client--listener-seq listener))
         (setf (sessiond-client--listener-seq listener) seq
               (sessiond-client--listener-entry-id listener) nil))
       (when (sessiond-client--listener-is-replaying listener)
         (setf (sessiond-client--listener-is-replaying listener) nil)
         (sessiond-client--guarded handler name params)))
      ("session/lagged"
       (setf (sessiond-client--listener-is-replaying listener) t)
       (sessiond-client--guarded handler name params))
      ("session/replaced" (sessiond-client--begin-anew listener params))
      (_ (sessiond-client--guarded handler name params)))))

(defun sessiond-client-subscribe-catalog (client handler)
  "Call HANDLER with the params of each catalog/changed of CLIENT, until it is unsubscribed.
After a lost connection HANDLER gets a change \"many\"."
  (push handler (sessiond-client--catalog-handlers client))
  (if (eq (sessiond-client--state client) 'ready)
      (sessiond-client--watch-catalog client nil)
    (sessiond-client--reach client)))

(defun sessiond-client--watch-catalog (client is-new-connection)
  "Subscribe CLIENT to what lists show.
If IS-NEW-CONNECTION, any list may have changed before."
  (sessiond-client--ask
   client "catalog/subscribe" nil
   (lambda (_result)
     (when is-new-connection
       (dolist (handler (sessiond-client--catalog-handlers client))
         (sessiond-client--guarded handler '(:session_id :null :change "many")))))
   #'ignore))

(defun sessiond-client-unsubscribe-catalog (client handler)
  "Let CLIENT call HANDLER no more."
  (setf (sessiond-client--catalog-handlers client)
        (delq handler (sessiond-client--catalog-handlers client)))
  (when (and (not (sessiond-client--catalog-handlers client))
             (eq (sessiond-client--state client) 'ready))
    (sessiond-client--ask client "catalog/unsubscribe" nil #'ignore #'ignore)))

(provide 'sessiond-client)

;; Emacs 28 makes docstrings of slots that are wider than 80 characters.
;; Local Variables:
;; byte-compile-docstring-max-column: 100
;; End:

;;; sessiond-client.el ends here
