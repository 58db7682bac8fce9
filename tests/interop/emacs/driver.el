;;; driver.el --- What the tests ask of a running Emacs  -*- lexical-binding: t; -*-

;; The test calls `drive' by emacsclient.  A form's value comes back as JSON, in a file: emacsclient loses
;; parts of long answers.

(require 'server)

(defvar driver-events nil "Events that the test's own subscription got, the newest first.")
(defvar driver-answers nil "Answers and errors of the test's requests, the newest first.")

(defvar driver-set-timers nil "The timers that were set, the newest first: a function and its seconds.")

(advice-add 'run-at-time :before
            (lambda (seconds _repeat function &rest _arguments)
              (push (cons function seconds) driver-set-timers)))

(defun driver-plain (value)
  "Return VALUE with lists as vectors and symbols as texts, so that JSON can carry it."
  (cond ((or (stringp value) (numberp value) (memq value '(t :false :null))) value)
        ((null value) :null)
        ((symbolp value) (symbol-name value))
        ((and (consp value) (keywordp (car value)))
         (let (plain)
           (while value
             (push (pop value) plain)
             ;; In a plist nil is the empty object.
             (push (and (car value) (driver-plain (car value))) plain)
             (pop value))
           (nreverse plain)))
        ((vectorp value) (vconcat (mapcar #'driver-plain value)))
        ((proper-list-p value) (vconcat (mapcar #'driver-plain value)))
        (t (format "%S" value))))

(defun drive (coded file)
  "Evaluate the form in CODED, a text in base64; write the value into FILE, as JSON."
  (require 'sessiond-client)
  (set-buffer (window-buffer (selected-window)))
  (let ((said (condition-case failure
                  (list :value (driver-plain
                                (eval (read (decode-coding-string (base64-decode-string coded) 'utf-8))
                                      t)))
                (error (list :error (format "%S" failure))))))
    (let ((coding-system-for-write 'utf-8-unix))
      (write-region (sessiond-client-encode said) nil file nil 'silent)
      nil)))

(defun driver-text (name)
  "Return the text of the buffer NAME."
  (with-current-buffer name (buffer-substring-no-properties (point-min) (point-max))))

(defun driver-keys (keys)
  "Carry out KEYS as if they were typed."
  (execute-kbd-macro (kbd keys)))

(defun driver-subscribe (session-id after)
  "Keep the events of SESSION-ID behind AFTER."
  (setq driver-events nil)
  (sessiond-client-subscribe (sessiond-client-shared) session-id
                             (lambda (method params)
                               (push (list :method method :params params) driver-events))
                             :after after
                             :catch (lambda (error) (push error driver-answers))))

(defun driver-ask (method params)
  "Send METHOD with PARAMS; keep the outcome."
  (sessiond-client-request (sessiond-client-shared) method params
                           :then (lambda (result) (push (list :result result) driver-answers))
                           :catch (lambda (error) (push (list :error error) driver-answers))))

(defun driver-pauses (function)
  "Return the seconds after which FUNCTION was to be called, those of the newest timer first."
  (mapcar #'cdr (seq-filter (lambda (timer) (eq (car timer) function)) driver-set-timers)))

(defun driver-timers ()
  "Return the functions of sessiond that Emacs is to call later, as texts."
  (seq-filter (lambda (text) (string-match-p "sessiond" text))
              (mapcar (lambda (timer) (format "%S" (timer--function timer)))
                      (append timer-list timer-idle-list))))

(defun driver-children ()
  "Return the names of Emacs's child processes, and of the connections of sessiond."
  (mapcar #'process-name
          (seq-filter (lambda (process)
                        (or (eq (process-type process) 'real)
                            (string-prefix-p "sessiond" (process-name process))))
                      (process-list))))

(defun driver-go-to (text)
  "Put point on the line with TEXT."
  (goto-char (point-min))
  (search-forward text)
  (beginning-of-line))

(provide 'driver)
;;; driver.el ends here
