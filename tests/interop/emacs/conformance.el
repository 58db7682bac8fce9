;;; conformance.el --- The Emacs client as a command of the conformance kit  -*- lexical-binding: t; -*-

;; emacs -Q --batch -L clients/emacs -l tests/interop/emacs/conformance.el
;;
;; See tests/conformance/README.md.  A step is a line on standard input; reading the next line
;; flushes what was printed.

(require 'sessiond-client)

(setq sessiond-start-daemon nil)

(defvar clients (make-hash-table :test #'equal) "Clients by the names of their connections.")
(defvar feeds (make-hash-table :test #'equal) "Subscriptions and unread events, by connection and session.")

(defun ascii (json)
  "Return JSON with escapes in place of other characters than ASCII."
  (replace-regexp-in-string
   "[^[:ascii:]]"
   (lambda (text)
     (let ((character (aref text 0)))
       (if (< character #x10000)
           (format "\\u%04x" character)
         (setq character (- character #x10000))
         (format "\\u%04x\\u%04x" (+ #xd800 (ash character -10))
                 (+ #xdc00 (logand character #x3ff))))))
   json t t))

(defun text-of (value)
  "Return VALUE as JSON."
  (sessiond-client-encode value))

(defun keeps-its-numbers-p (text)
  "Return non-nil if Emacs writes every number in the JSON TEXT as it is spelled there."
  (with-temp-buffer
    (insert text)
    (goto-char (point-min))
    (let ((is-kept t))
      (while (and is-kept (re-search-forward "\"\\|-?[0-9][0-9.eE+-]*" nil t))
        (let ((token (match-string 0)))
          (if (equal token "\"")
              (while (and (re-search-forward "[\"\\]" nil t) (eq (char-before) ?\\))
                (forward-char))
            (setq is-kept (equal token (number-to-string (string-to-number token)))))))
      is-kept)))

(defvar loses-a-number nil "Whether a message of this step had a number that Emacs spells anew.")

(advice-add 'sessiond-client--decode :before
            (lambda (text)
              (unless (keeps-its-numbers-p text)
                (setq loses-a-number t))))

(defun until (condition)
  "Wait until the function CONDITION returns non-nil; return the value."
  (let (value)
    (while (not (setq value (funcall condition)))
      (accept-process-output nil 1))
    value))

(defun error-answer (error)
  "Return the answer for the ERROR of a request."
  (list :error (list :code (plist-get error :code) :message (plist-get error :message)
                     :data (plist-get error :data))))

(defun start-call (client method params)
  "Send METHOD with PARAMS, a text, over CLIENT; return a box for the answer."
  (let ((box (list nil)))
    (sessiond-client-request
     client method (sessiond-client--decode params)
     :then (lambda (result) (setcar box (list :result result)))
     :catch (lambda (error) (setcar box (error-answer error))))
    box))

(defun answer-of (box)
  "Return the answer that comes into BOX."
  (until (lambda () (car box))))

(defun enqueue (feed method params)
  "Put the event METHOD with PARAMS behind the unread events of FEED."
  (setcdr feed (append (cdr feed) (list (list :method method :params params)))))

(defun do-subscribe (client key params)
  "Subscribe over CLIENT with PARAMS, a plist; keep the feed under KEY."
  (let ((box (list nil))
        (feed (list nil))
        (session-id (plist-get params :session_id))
        (after (plist-get params :after))
        (options (sessiond-client--without (sessiond-client--without params :session_id) :after)))
    (when-let ((old (gethash key feeds)))
      (sessiond-client-unsubscribe (car old)))
    (setcar feed (sessiond-client-subscribe
                  client session-id
                  (lambda (method event) (enqueue feed method event))
                  :after (if (eq after :null) nil after) :options options
                  :then (lambda (result) (setcar box (list :result result)))
                  :catch (lambda (error) (setcar box (error-answer error)))))
    (puthash key feed feeds)
    (list :answer (text-of (answer-of box)))))

(defun do-close (name)
  "End the connection NAME, or every one if NAME is nil."
  (dolist (each (if name (list name) (hash-table-keys clients)))
    (when-let ((client (gethash each clients)))
      (sessiond-client-close client)
      (remhash each clients)))
  nil)

(defun client-of (step)
  "Return the client of STEP, made if there is none."
  (let ((name (plist-get step :on))
        (options (sessiond-client--decode (or (plist-get step :options) "{}"))))
    (or (gethash name clients)
        (puthash name (sessiond-client-new :socket (getenv "CONFORMANCE_SOCKET")
                                           :client-id (plist-get options :client_id)
                                           :access (plist-get options :access))
                 clients))))

(defun act (step)
  "Carry out STEP; return what is to be said."
  (let ((params (and (plist-get step :params)
                     (sessiond-client--decode (plist-get step :params))))
        (word (plist-get step :do))
        (name (plist-get step :on)))
    (pcase word
      ("close" (do-close name))
      ("connect" (client-of step) nil)
      ("call" (list :answer (text-of (answer-of (start-call (client-of step)
                                                            (plist-get step :method)
                                                            (plist-get step :params))))))
      ("pipeline"
       (let* ((client (client-of step))
              (boxes (mapcar (lambda (call) (start-call client (plist-get call :method)
                                                        (plist-get call :params)))
                             (plist-get step :calls))))
         (list :answers (text-of (vconcat (mapcar #'answer-of boxes))))))
      ("subscribe"
       (do-subscribe (client-of step) (cons name (plist-get params :session_id)) params))
      ("flush"
       (let* ((session-id (plist-get step :session_id))
              (feed (gethash (cons name session-id) feeds)))
         (sessiond-client-request
          (client-of step) "session/flush" (list :session_id session-id)
          :then (lambda (result)
                  (enqueue feed "session/flushed"
                           (append (list :session_id session-id) result))))
         nil))
      ("next"
       (let ((feed (gethash (cons name (plist-get step :session_id)) feeds)))
         (list :event (text-of (until (lambda () (pop (cdr feed))))))))
      (_ (list :unsupported (format "no surface for %s" word))))))

(defun run-steps ()
  "Carry out the steps that come on standard input, until it ends."
  (let (line)
    (while (setq line (ignore-errors (read-string "")))
      (setq loses-a-number nil)
      (let ((said (condition-case failure
                      (act (sessiond-client--decode line))
                    (error (list :failed (format "%S" failure))))))
        (princ (concat (ascii (text-of (if loses-a-number
                                           '(:unsupported "Emacs spells these numbers in another way")
                                         said)))
                       "\n"))))))

(run-steps)
;;; conformance.el ends here
