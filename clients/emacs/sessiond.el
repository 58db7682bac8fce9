;;; sessiond.el --- Sessions of coding agents, shared and live  -*- lexical-binding: t; -*-

;; Author: The authors of sessiond
;; Version: 0.1.1
;; Package-Requires: ((emacs "28.1"))
;; Keywords: tools, convenience
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; Lists the sessions of coding agents, shows a session as a tree and as a live tail, and appends to
;; a session, through the daemon sessiond.  Every buffer follows what other clients write.
;;
;;   M-x sessiond-list     sessions of this project; RET opens one
;;   M-x sessiond-tree     the tree of a session: move, branch, label
;;   M-x sessiond-tail     the entries of a session, as they come
;;   M-x sessiond-append   a message to a session
;;
;; Keys are bound in the buffers of these commands only; C-h m there tells each.
;;
;; Law: no key and no redraw waits for the daemon.  Only `sessiond-read-session' waits, at most five
;; seconds, since the user asks for the list.

;;; Code:

(require 'cl-lib)
(require 'project)
(require 'sessiond-client)
(require 'subr-x)
(require 'tabulated-list)

(defcustom sessiond-list-rows-max 1000
  "Number of sessions that a list shows."
  :type 'natnum
  :group 'sessiond)

(defcustom sessiond-tail-entries-begin 100
  "Number of stored entries that a tail shows when it begins."
  :type 'natnum
  :group 'sessiond)

(defcustom sessiond-tail-entries-max 1000
  "Number of entries that a tail keeps; the oldest are removed."
  :type 'natnum
  :group 'sessiond)

(defcustom sessiond-tail-text-max 4000
  "Number of characters of an entry that a tail shows."
  :type 'natnum
  :group 'sessiond)

(defface sessiond-heading '((t :inherit font-lock-keyword-face))
  "Face of the line above an entry."
  :group 'sessiond)

(defvar-local sessiond-session nil
  "Id of the session that the buffer shows.")

(defvar-local sessiond--subscription nil
  "Subscription of the buffer.")

;;; What the buffers share

(defun sessiond--say (error)
  "Show ERROR, the plist of a refused request, in the echo area."
  (message "sessiond: %s" (plist-get error :message)))

(defun sessiond--in (buffer function)
  "Return a function to call FUNCTION with any arguments in BUFFER, if BUFFER is live."
  (lambda (&rest arguments)
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (apply function arguments)))))

(defun sessiond--text-or (value default)
  "Return VALUE if it is a text, else DEFAULT."
  (if (stringp value) value default))

(defun sessiond--line (text)
  "Return TEXT in one line."
  (replace-regexp-in-string "[\n\r\t]+" " " text))

(defun sessiond--title (session)
  "Return the title of SESSION, or the beginning of its first message, or its id."
  (sessiond--line
   (sessiond--text-or (plist-get session :title)
                      (sessiond--text-or (plist-get session :first_message)
                                         (plist-get session :id)))))

(defun sessiond-project ()
  "Return the folder of the present project, or the present folder, as sessions name it."
  (let ((project (project-current)))
    (directory-file-name
     (expand-file-name (if project (project-root project) default-directory)))))

(defun sessiond-read-session ()
  "Return the session of this buffer or line, or let the user choose one.
Waits for the list of sessions, at most five seconds."
  (or (and (derived-mode-p 'sessiond-list-mode) (tabulated-list-get-id))
      sessiond-session
      (let* ((answer (sessiond-client-wait (sessiond-client-shared) "session/list"
                                           '(:limit 500) 5))
             (choices (mapcar (lambda (session)
                                (cons (format "%s  %s" (sessiond--title session)
                                              (plist-get session :id))
                                      (plist-get session :id)))
                              (plist-get answer :sessions)))
             (choice (completing-read "Session: " choices nil t)))
        (or (cdr (assoc choice choices))
            (user-error "No session was chosen")))))

(defun sessiond--head-names (heads)
  "Return the names of HEADS, a vector."
  (mapcar (lambda (head) (plist-get head :name)) heads))

(defun sessiond--leave ()
  "End the subscription of the buffer."
  (when sessiond--subscription
    (sessiond-client-unsubscribe sessiond--subscription)
    (setq sessiond--subscription nil)))

(defun sessiond--show (kind session-id mode begin)
  "Show SESSION-ID in the buffer of a KIND of view, which is made once.
MODE sets the buffer up, and BEGIN starts to follow the session."
  (let ((buffer (get-buffer-create (format "*sessiond %s %s*" kind session-id))))
    (with-current-buffer buffer
      (unless (and (derived-mode-p mode) sessiond--subscription)
        (funcall mode)
        (setq sessiond-session session-id)
        (funcall begin)))
    (pop-to-buffer buffer)))

(defun sessiond--content-text (content)
  "Return the CONTENT of a message as text."
  (cond
   ((stringp content) content)
   ((vectorp content)
    (mapconcat (lambda (part)
                 (cond ((stringp part) part)
                       ((not (consp part)) (format "%s" part))
                       ((stringp (plist-get part :text)) (plist-get part :text))
                       (t (format "[%s]" (sessiond--text-or (plist-get part :type) "part")))))
               content "\n"))
   (t "")))

(defun sessiond--entry-kind (entry)
  "Return the role of the message ENTRY, or the type of another ENTRY."
  (or (let ((role (plist-get (plist-get entry :message) :role)))
        (and (stringp role) role))
      (plist-get entry :type)))

(defun sessiond--entry-text (entry)
  "Return the text of ENTRY."
  (pcase (plist-get entry :type)
    ("message" (sessiond--content-text (plist-get (plist-get entry :message) :content)))
    ("custom_message" (sessiond--content-text (plist-get entry :content)))
    ((or "compaction" "branch_summary") (sessiond--text-or (plist-get entry :summary) ""))
    ("label" (format "%s: %s" (plist-get entry :target_id)
                     (sessiond--text-or (plist-get entry :label) "none")))
    ("session_info" (sessiond--text-or (plist-get entry :name)
                                       (sessiond--text-or (plist-get entry :title) "")))
    ("leaf" (sessiond--text-or (plist-get entry :target_id) "before the first entry"))
    ("custom" (sessiond--text-or (plist-get entry :custom_type) ""))
    ("model_change" (sessiond--text-or (plist-get entry :model_id) ""))
    (_ "")))

(defun sessiond--head-mark (entry)
  "Return the head of ENTRY in brackets, or the empty text for main."
  (let ((head (plist-get entry :head)))
    (if (stringp head) (format "  [%s]" head) "")))

(defun sessiond--short (id)
  "Return the short form of ID."
  (substring id 0 (min 8 (length id))))

;;; One entry

(defvar sessiond-entry-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map special-mode-map)
    map)
  "Keys of `sessiond-entry-mode'.")

(define-derived-mode sessiond-entry-mode special-mode "Sessiond-Entry"
  "Major mode that shows one entry of a session: its text, then all of it as JSON.

\\{sessiond-entry-mode-map}"
  (setq-local truncate-lines nil))

(defun sessiond-show-entry (session-id entry-id)
  "Show ENTRY-ID of SESSION-ID in a buffer, once the daemon has answered."
  (sessiond-client-request
   (sessiond-client-shared) "session/entry" (list :session_id session-id :entry_id entry-id)
   :then (lambda (result)
           (let ((entry (plist-get result :entry)))
             (with-current-buffer (get-buffer-create "*sessiond entry*")
               (sessiond-entry-mode)
               (setq sessiond-session session-id)
               (let ((inhibit-read-only t))
                 (erase-buffer)
                 (insert (propertize (format "%s %s\n" (sessiond--entry-kind entry) entry-id)
                                     'face 'sessiond-heading)
                         (sessiond--entry-text entry) "\n\n")
                 (let ((begin (point)))
                   (insert (sessiond-client-encode entry) "\n")
                   (ignore-errors (json-pretty-print begin (1- (point)))))
                 (goto-char (point-min)))
               (display-buffer (current-buffer)))))
   :catch #'sessiond--say))

;;; Append

(defvar-local sessiond--head nil
  "Head that the message of the buffer is for; nil is main.")

(defvar-local sessiond--message-sent nil
  "The text of the last try, and the id of its entry: the same text is stored once.")

(defvar sessiond-message-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'sessiond-message-send)
    (define-key map (kbd "C-c C-k") #'sessiond-message-cancel)
    map)
  "Keys of `sessiond-message-mode'.")

(define-derived-mode sessiond-message-mode text-mode "Sessiond-Message"
  "Major mode of a message that is to be appended to a session.

\\{sessiond-message-mode-map}"
  (setq header-line-format
        (substitute-command-keys
         "\\<sessiond-message-mode-map>\\[sessiond-message-send] appends, \
\\[sessiond-message-cancel] cancels")))

(defun sessiond--append (session-id text head then)
  "Append TEXT of the user to HEAD of SESSION-ID; call THEN with the result."
  (sessiond-client-append
   (sessiond-client-shared) session-id text :head head
   :then (lambda (result)
           (message "sessiond: stored as entry %s" (plist-get result :seq))
           (when then (funcall then result)))
   :catch #'sessiond--say))

;;;###autoload
(defun sessiond-append (session-id &optional head)
  "Append a message of the user to SESSION-ID: the region, or the text of a new buffer.
With a prefix argument, append to another HEAD than main."
  (interactive (let ((session-id (sessiond-read-session)))
                 (list session-id (and current-prefix-arg (sessiond--read-head session-id)))))
  (if (use-region-p)
      (progn
        (sessiond--append session-id
                          (buffer-substring-no-properties (region-beginning) (region-end))
                          head nil)
        (deactivate-mark))
    (let ((buffer (generate-new-buffer "*sessiond message*")))
      (with-current-buffer buffer
        (sessiond-message-mode)
        (setq sessiond-session session-id
              sessiond--head head))
      (pop-to-buffer buffer))))

(defun sessiond-message-send ()
  "Append the text of this buffer to its session, and kill the buffer once the text is stored."
  (interactive)
  (let ((text (buffer-substring-no-properties (point-min) (point-max)))
        (buffer (current-buffer)))
    (when (string-empty-p (string-trim text))
      (user-error "The message is empty"))
    (when buffer-read-only
      (user-error "The message is on its way"))
    ;; The text stays until it is stored, and changes no more.
    (setq buffer-read-only t)
    (unless (equal text (car sessiond--message-sent))
      (setq sessiond--message-sent (cons text (sessiond-client-new-id))))
    (sessiond-client-append
     (sessiond-client-shared) sessiond-session text
     :head sessiond--head :id (cdr sessiond--message-sent)
     :then (lambda (result)
             (message "sessiond: stored as entry %s" (plist-get result :seq))
             (when (buffer-live-p buffer)
               (when-let ((window (get-buffer-window buffer)))
                 (quit-restore-window window))
               (kill-buffer buffer)))
     :catch (lambda (error)
              (when (buffer-live-p buffer)
                (with-current-buffer buffer (setq buffer-read-only nil)))
              (sessiond--say error)))))

(defun sessiond-message-cancel ()
  "Kill the buffer of the message; append nothing."
  (interactive)
  (quit-window t))

(defun sessiond--read-head (session-id)
  "Let the user choose a head of SESSION-ID.
Waits for the heads, at most five seconds."
  (let ((answer (sessiond-client-wait (sessiond-client-shared) "session/heads"
                                      (list :session_id session-id) 5)))
    (completing-read "Head: " (sessiond--head-names (plist-get answer :heads)) nil t nil nil
                     "main")))

;;; Tail

(defvar sessiond-tail-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map special-mode-map)
    (define-key map (kbd "RET") #'sessiond-tail-show)
    (define-key map "n" #'sessiond-tail-next)
    (define-key map "p" #'sessiond-tail-previous)
    (define-key map "a" #'sessiond-append)
    (define-key map "t" #'sessiond-tree)
    map)
  "Keys of `sessiond-tail-mode'.")

(defvar-local sessiond--tail-count 0
  "Number of entries in the buffer.")

(define-derived-mode sessiond-tail-mode special-mode "Sessiond-Tail"
  "Major mode of the entries of a session, as they come.
With point at the end of the buffer, the windows follow.

\\{sessiond-tail-mode-map}"
  (setq-local revert-buffer-function (lambda (&rest _) (sessiond--tail-begin))
              truncate-lines nil)
  (buffer-disable-undo)
  (add-hook 'kill-buffer-hook #'sessiond--leave nil t)
  (add-hook 'change-major-mode-hook #'sessiond--leave nil t))

;;;###autoload
(defun sessiond-tail (session-id)
  "Show the entries of SESSION-ID, and follow what comes."
  (interactive (list (sessiond-read-session)))
  (sessiond--show "tail" session-id #'sessiond-tail-mode #'sessiond--tail-begin))

(defun sessiond--tail-begin ()
  "Fill the buffer with the last stored entries of its session, then follow the session."
  (sessiond--leave)
  (sessiond--tail-clear)
  (setq mode-line-process ":loading")
  (let ((buffer (current-buffer)))
    (sessiond-client-request
     ;; Backwards from the largest line there can be.
     (sessiond-client-shared) "session/entries"
     (list :session_id sessiond-session :before_seq 9007199254740991
           :limit sessiond-tail-entries-begin)
     :then (sessiond--in buffer #'sessiond--tail-fill)
     :catch (sessiond--in buffer #'sessiond--tail-failed))))

(defun sessiond--tail-failed (error)
  "Show in the mode line that the session cannot be followed, because of ERROR."
  (setq mode-line-process (format ":%s" (plist-get error :kind)))
  (sessiond--say error))

(defun sessiond--tail-fill (result)
  "Show the page of entries in RESULT, then subscribe behind it."
  (let* ((rows (sort (append (plist-get result :entries) nil)
                     (lambda (one other) (< (plist-get one :seq) (plist-get other :seq)))))
         (last-row (car (last rows))))
    (sessiond--tail-clear)
    (dolist (row rows)
      (sessiond--tail-insert (plist-get row :seq) (plist-get row :entry)))
    (sessiond--leave)
    (setq mode-line-process nil
          sessiond--subscription
          (sessiond-client-subscribe
           (sessiond-client-shared) sessiond-session
           (sessiond--in (current-buffer) #'sessiond--tail-told)
           :after (if last-row
                      (list :seq (plist-get last-row :seq)
                            :entry_id (plist-get (plist-get last-row :entry) :id))
                    (list :seq 0))
           :catch (sessiond--in (current-buffer) #'sessiond--tail-failed)))
    (force-mode-line-update)))

(defun sessiond--tail-clear ()
  "Remove every entry from the buffer."
  (let ((inhibit-read-only t))
    (setq sessiond--tail-count 0)
    (erase-buffer)))

(defun sessiond--tail-told (method params)
  "Show the event METHOD with PARAMS of the session."
  (pcase method
    ("session/event" (sessiond--tail-insert (plist-get params :seq) (plist-get params :entry)))
    ("session/replaced" (sessiond--tail-clear))
    ("session/closed"
     (setq sessiond--subscription nil
           mode-line-process (format ":%s" (plist-get params :reason)))
     (force-mode-line-update))))

(defun sessiond--tail-insert (seq entry)
  "Insert ENTRY, line SEQ of the session, at the end; follow where point was at the end."
  (let* ((inhibit-read-only t)
         (is-following (eobp))
         (windows (seq-filter (lambda (window) (= (window-point window) (point-max)))
                              (get-buffer-window-list nil nil t)))
         (text (sessiond--entry-text entry)))
    (save-excursion
      (goto-char (point-max))
      (let ((begin (point)))
        (insert (propertize (format "%d  %s  %s%s\n" seq (sessiond--entry-kind entry)
                                    (sessiond--short (plist-get entry :id))
                                    (sessiond--head-mark entry))
                            'face 'sessiond-heading))
        (unless (string-empty-p text)
          (insert (if (> (length text) sessiond-tail-text-max)
                      (concat (substring text 0 sessiond-tail-text-max) "…")
                    text)
                  "\n"))
        (insert "\n")
        (put-text-property begin (point) 'sessiond-entry (plist-get entry :id)))
      (cl-incf sessiond--tail-count)
      (sessiond--tail-trim))
    (when is-following
      (goto-char (point-max)))
    (dolist (window windows)
      (set-window-point window (point-max)))))

(defun sessiond--tail-trim ()
  "Remove the oldest entry if there are too many."
  (when (> sessiond--tail-count sessiond-tail-entries-max)
    (delete-region (point-min) (sessiond--tail-after (point-min)))
    (cl-decf sessiond--tail-count)))

(defun sessiond--tail-after (position)
  "Return where the entry at POSITION ends."
  (next-single-property-change position 'sessiond-entry nil (point-max)))

(defun sessiond-tail-next ()
  "Go to the next entry."
  (interactive)
  (goto-char (sessiond--tail-after (point))))

(defun sessiond-tail-previous ()
  "Go to the beginning of this entry, or to the entry before."
  (interactive)
  (goto-char (previous-single-property-change (point) 'sessiond-entry nil (point-min))))

(defun sessiond-tail-show ()
  "Show the whole entry at point."
  (interactive)
  (sessiond-show-entry sessiond-session
                       (or (get-text-property (point) 'sessiond-entry)
                           (user-error "No entry here"))))

;;; Tree

(defvar sessiond-tree-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map special-mode-map)
    (define-key map (kbd "RET") #'sessiond-tree-show)
    (define-key map "n" #'next-line)
    (define-key map "p" #'previous-line)
    (define-key map "m" #'sessiond-tree-move)
    (define-key map "b" #'sessiond-tree-branch)
    (define-key map "l" #'sessiond-tree-label)
    (define-key map "a" #'sessiond-append)
    (define-key map "t" #'sessiond-tail)
    map)
  "Keys of `sessiond-tree-mode'.")

(defvar-local sessiond--redraw nil
  "State of the redraw: nil, `planned', `asked', or `stale' if a change came after the request.")

(defvar-local sessiond--redraw-seconds 0
  "Time that the last redraw took.")

(define-derived-mode sessiond-tree-mode special-mode "Sessiond-Tree"
  "Major mode of the tree of a session, which follows what other clients write.
The mark ▶ is the leaf of main, • its path, ◀ names other heads that stand at an entry.

\\{sessiond-tree-mode-map}"
  (setq-local revert-buffer-function (lambda (&rest _) (sessiond--tree-begin))
              truncate-lines t)
  (buffer-disable-undo)
  (jit-lock-register #'sessiond--tree-hide)
  (add-hook 'kill-buffer-hook #'sessiond--leave nil t)
  (add-hook 'change-major-mode-hook #'sessiond--leave nil t))

;;;###autoload
(defun sessiond-tree (session-id)
  "Show the tree of SESSION-ID, and follow what comes."
  (interactive (list (sessiond-read-session)))
  (sessiond--show "tree" session-id #'sessiond-tree-mode #'sessiond--tree-begin))

(defun sessiond--tree-begin ()
  "Subscribe to the session of the buffer, and draw its tree."
  (sessiond--leave)
  (setq mode-line-process nil
        sessiond--redraw nil
        sessiond--subscription
        (sessiond-client-subscribe
         (sessiond-client-shared) sessiond-session
         (sessiond--in (current-buffer) #'sessiond--tree-told)
         :catch (sessiond--in (current-buffer) #'sessiond--tail-failed)))
  (sessiond--tree-ask nil))

(defun sessiond--tree-told (method params)
  "Draw the tree again after the event METHOD with PARAMS of the session."
  (pcase method
    ((or "session/event" "session/replaced") (sessiond--tree-plan))
    ("session/closed" (sessiond--tail-told method params))))

(defun sessiond--tree-plan ()
  "Draw the tree again soon.
Changes that come together are drawn together, and a large tree is drawn less often."
  (pcase sessiond--redraw
    ('nil
     (setq sessiond--redraw 'planned)
     (run-at-time (max 0.05 (* 5 sessiond--redraw-seconds)) nil
                  (sessiond--in (current-buffer) #'sessiond--tree-ask) nil))
    ('asked (setq sessiond--redraw 'stale))))

(defun sessiond--tree-ask (around)
  "Ask for the tree, drawn as text; only the tree AROUND an entry if that is non-nil."
  (setq sessiond--redraw 'asked)
  (let ((buffer (current-buffer)))
    (sessiond-client-request
     (sessiond-client-shared) "session/tree"
     (append (list :session_id sessiond-session :form "text" :ids t)
             (and around (list :around around)))
     :then (sessiond--in buffer #'sessiond--tree-draw)
     :catch (sessiond--in buffer (lambda (error) (sessiond--tree-failed error around))))))

(defun sessiond--tree-failed (error around)
  "Show ERROR; of a tree that is too large, ask for the entries around the leaf of main.
AROUND is the entry that was asked for already, or nil."
  (setq sessiond--redraw nil)
  (if (or around (not (equal (plist-get error :kind) "too_large")))
      (sessiond--tail-failed error)
    (let ((buffer (current-buffer)))
      (sessiond-client-heads
       (sessiond-client-shared) sessiond-session
       :then (sessiond--in buffer
                           (lambda (result)
                             (sessiond--tree-ask
                              (plist-get (aref (plist-get result :heads) 0) :leaf_id))))
       :catch (sessiond--in buffer #'sessiond--tail-failed)))))

(defun sessiond--tree-draw (result)
  "Draw the tree in RESULT; point and windows stay at their entries."
  (let* ((begin (float-time))
         (inhibit-read-only t)
         (was-stale (eq sessiond--redraw 'stale))
         (places (cons (cons nil (sessiond--tree-place (point)))
                       (mapcar (lambda (window)
                                 (cons window (sessiond--tree-place (window-point window))))
                               (get-buffer-window-list nil nil t)))))
    (erase-buffer)
    (insert (plist-get result :text) "\n")
    (pcase-dolist (`(,window . ,place) places)
      (let ((position (sessiond--tree-find place)))
        (if window
            (set-window-point window position)
          (goto-char position))))
    (setq sessiond--redraw nil
          mode-line-process nil
          sessiond--redraw-seconds (- (float-time) begin))
    (when was-stale
      (sessiond--tree-plan))))

(defconst sessiond--tree-id " (\\([^ ()\n]+\\))$"
  "Regular expression of the id at the end of a drawn line.")

(defun sessiond--tree-hide (begin end)
  "Hide the ids of the lines from BEGIN to END, which are about to be displayed.
A redraw of a large tree costs one insertion this way."
  (goto-char begin)
  (beginning-of-line)
  (while (re-search-forward sessiond--tree-id end t)
    (put-text-property (match-beginning 0) (match-end 0) 'invisible t)))

(defun sessiond--tree-entry-at (position)
  "Return the entry of the line at POSITION, or nil."
  (save-excursion
    (goto-char position)
    (beginning-of-line)
    (and (re-search-forward sessiond--tree-id (line-end-position) t)
         (match-string-no-properties 1))))

(defun sessiond--tree-place (position)
  "Return the place of POSITION: entry, line and distance from the beginning of the line."
  (save-excursion
    (goto-char position)
    (list (sessiond--tree-entry-at position)
          (line-number-at-pos)
          (- position (line-beginning-position)))))

(defun sessiond--tree-find (place)
  "Return the position that PLACE has now."
  (pcase-let ((`(,entry-id ,line ,distance) place))
    (save-excursion
      (goto-char (point-min))
      (if (and entry-id (search-forward (format " (%s)\n" entry-id) nil t))
          (forward-line -1)
        (forward-line (1- line)))
      (min (+ (point) distance) (line-end-position)))))

(defun sessiond--tree-entry ()
  "Return the entry of the line at point."
  (or (sessiond--tree-entry-at (point))
      (user-error "No entry on this line")))

(defun sessiond-tree-show ()
  "Show the whole entry at point."
  (interactive)
  (sessiond-show-entry sessiond-session (sessiond--tree-entry)))

(defun sessiond-tree-move (head)
  "Move HEAD to the entry at point: the next append to the head comes below that entry.
HEAD is main; with a prefix argument the user chooses one."
  (interactive (list (and current-prefix-arg (sessiond--read-head sessiond-session))))
  (sessiond--tree-put (sessiond--tree-entry) (or head "main") nil))

(defun sessiond-tree-branch (head)
  "Make a new HEAD at the entry at point; main stays where it is."
  (interactive "sName of the new head: ")
  (when (string-empty-p head)
    (user-error "A head has a name"))
  ;; A head that does not exist counts as standing before the first entry.
  (sessiond--tree-put (sessiond--tree-entry) head '(:leaf_id :null)))

(defun sessiond--tree-put (entry-id head expected)
  "Put HEAD at ENTRY-ID under the condition EXPECTED, and say so."
  (sessiond-client-branch
   (sessiond-client-shared) sessiond-session entry-id :head head :expected expected
   :then (lambda (_result)
           (message "sessiond: %s is at %s" head (sessiond--short entry-id)))
   :catch (lambda (error)
            (if (and expected (equal (plist-get error :kind) "precondition_failed"))
                (message "sessiond: there is a head %s already" head)
              (sessiond--say error)))))

(defun sessiond-tree-label (label)
  "Set the LABEL of the entry at point; the empty text clears the label."
  (interactive "sLabel: ")
  (sessiond-client-label (sessiond-client-shared) sessiond-session (sessiond--tree-entry) label
                         :catch #'sessiond--say))

;;; List

(defvar sessiond-list-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map tabulated-list-mode-map)
    (define-key map (kbd "RET") #'sessiond-tail)
    (define-key map "t" #'sessiond-tree)
    (define-key map "a" #'sessiond-append)
    (define-key map "+" #'sessiond-new)
    (define-key map "w" #'sessiond-list-widen)
    map)
  "Keys of `sessiond-list-mode'.")

(defvar-local sessiond--list-project nil
  "Project whose sessions the buffer lists; nil is all projects.")

(defvar-local sessiond--list-home nil
  "Project from which the list was made.")

(defvar-local sessiond--list-handler nil
  "Function that is told of changes of lists.")

(define-derived-mode sessiond-list-mode tabulated-list-mode "Sessiond-List"
  "Major mode of a list of sessions, which follows what other clients write.

\\{sessiond-list-mode-map}"
  (setq tabulated-list-format [("Title" 40 t) ("Messages" 8 sessiond--list-fewer-p)
                               ("Status" 8 t) ("Updated" 20 t) ("Project" 0 t)]
        tabulated-list-sort-key '("Updated" . t))
  (setq-local revert-buffer-function (lambda (&rest _) (sessiond--list-ask)))
  (add-hook 'kill-buffer-hook #'sessiond--list-leave nil t)
  (add-hook 'change-major-mode-hook #'sessiond--list-leave nil t)
  (tabulated-list-init-header))

(defun sessiond--list-fewer-p (one other)
  "Return non-nil if the row ONE has fewer messages than the row OTHER."
  (< (string-to-number (aref (cadr one) 1)) (string-to-number (aref (cadr other) 1))))

;;;###autoload
(defun sessiond-list (&optional is-all)
  "List the sessions of the present project; with a prefix argument IS-ALL, of every project."
  (interactive "P")
  (let ((project (sessiond-project))
        (buffer (get-buffer-create "*sessiond*")))
    (with-current-buffer buffer
      (unless (derived-mode-p 'sessiond-list-mode)
        (sessiond-list-mode))
      (setq sessiond--list-home project
            sessiond--list-project (and (not is-all) project)
            default-directory (file-name-as-directory project))
      (unless sessiond--list-handler
        (setq sessiond--list-handler
              (sessiond--in buffer (lambda (_params) (sessiond--list-plan))))
        (sessiond-client-subscribe-catalog (sessiond-client-shared) sessiond--list-handler))
      (sessiond--list-ask))
    (pop-to-buffer buffer)))

(defun sessiond-list-widen ()
  "List the sessions of every project, or of the present project again."
  (interactive)
  (setq sessiond--list-project (and (not sessiond--list-project) sessiond--list-home))
  (sessiond--list-ask))

(defun sessiond--list-leave ()
  "End the subscription of the list."
  (when sessiond--list-handler
    (sessiond-client-unsubscribe-catalog (sessiond-client-shared) sessiond--list-handler)
    (setq sessiond--list-handler nil)))

(defun sessiond--list-plan ()
  "Ask for the list again soon; do so once for several events."
  (pcase sessiond--redraw
    ('nil
     (setq sessiond--redraw 'planned)
     (run-at-time 0.1 nil (sessiond--in (current-buffer) #'sessiond--list-ask)))
    ('asked (setq sessiond--redraw 'stale))))

(defun sessiond--list-ask ()
  "Ask for the list."
  (setq sessiond--redraw 'asked
        mode-line-process (if sessiond--list-project ":project" ":all"))
  (sessiond-client-list
   (sessiond-client-shared) :cwd sessiond--list-project :limit sessiond-list-rows-max
   :then (sessiond--in (current-buffer) #'sessiond--list-draw)
   :catch (sessiond--in (current-buffer)
                        (lambda (error)
                          (setq sessiond--redraw nil)
                          (sessiond--say error)))))

(defun sessiond--list-draw (result)
  "Show the sessions in RESULT."
  (let ((was-stale (eq sessiond--redraw 'stale)))
    (setq sessiond--redraw nil
          tabulated-list-entries (mapcar #'sessiond--list-row (plist-get result :sessions)))
    (tabulated-list-print t)
    (when was-stale
      (sessiond--list-plan))))

(defun sessiond--list-row (session)
  "Return the row of SESSION."
  (list (plist-get session :id)
        (vector (sessiond--title session)
                (number-to-string (plist-get session :message_total))
                (sessiond--text-or (plist-get session :status) "")
                (replace-regexp-in-string "\\..*" ""
                                          (string-replace "T" " " (plist-get session :updated_at)))
                (sessiond--line (plist-get session :cwd)))))

;;;###autoload
(defun sessiond-new (title)
  "Create a session of the present project with TITLE, and show its tail."
  (interactive "sTitle: ")
  (sessiond-client-create
   (sessiond-client-shared) (sessiond-project)
   :title (and (not (string-empty-p title)) title)
   :then (lambda (result) (sessiond-tail (plist-get (plist-get result :session) :id)))
   :catch #'sessiond--say))

(provide 'sessiond)

;; Emacs 28 makes docstrings of slots that are wider than 80 characters.
;; Local Variables:
;; byte-compile-docstring-max-column: 100
;; End:

;;; sessiond.el ends here
