;;; emacs.el --- The language server as Emacs sees it, with the set-up lines of docs/editors.md -*- lexical-binding: t; -*-

;; A mistake and its place, a hover, a completion, and a rename over two files. Ends with an error where one is not right.

(require 'package)
(package-initialize)
(require 'eglot)
(require 'flymake)
(require 'yaml-mode)

(defun gdn-wait (what condition)
  "Wait until CONDITION holds, which WHAT names."
  (with-timeout (30 (error "In vain: %s" what))
    (while (not (funcall condition))
      (accept-process-output nil 0.05))))

(defun gdn-find (word)
  "Go to the beginning of WORD."
  (goto-char (point-min))
  (search-forward word)
  (goto-char (match-beginning 0)))

(defun gdn-errors ()
  "The errors that are shown."
  (seq-filter (lambda (one) (string-match-p "error" (format "%s" (flymake-diagnostic-type one)))) (flymake-diagnostics)))

(let ((project (getenv "PROJECT")))
  ;; The lines of the documentation, up to the name of the program.
  (add-to-list 'eglot-server-programs `((yaml-ts-mode yaml-mode) . (,(getenv "GDN") "lsp")))
  (setq eglot-autoshutdown nil)
  (find-file (expand-file-name "goondan.yaml" project))
  (yaml-mode)
  (apply #'eglot--connect (eglot--guess-contact))
  (gdn-wait "a server" #'eglot-current-server)
  (unless (bound-and-true-p eglot--managed-mode) (eglot--maybe-activate-editing-mode))
  (flymake-start)
  (gdn-wait "an error" (lambda () (= (length (gdn-errors)) 1)))
  (gdn-find "Tool/file-systm")
  (cl-assert (= (flymake-diagnostic-beg (car (gdn-errors))) (point)) t)
  (cl-assert (string-match-p "file-systm" (flymake-diagnostic-text (car (gdn-errors)))) t)
  (delete-char (length "Tool/file-systm"))
  (insert "Tool/file-syst")
  (eglot--signal-textDocument/didChange)
  (let ((items (all-completions "Tool/file-syst" (nth 2 (eglot-completion-at-point)))))
    (cl-assert (member "Tool/file-system" (mapcar #'substring-no-properties items)) t))
  (insert "em")
  (eglot--signal-textDocument/didChange)
  (gdn-wait "no error" (lambda () (null (gdn-errors))))
  (gdn-find "modelRef")
  (let ((hover (jsonrpc-request (eglot-current-server) :textDocument/hover (eglot--TextDocumentPositionParams))))
    (cl-assert (string-match-p "The Model to use" (format "%S" hover)) t))
  (gdn-find "writer")
  ;; Emacs asks before it changes a file that is not open.
  (cl-letf (((symbol-function 'y-or-n-p) #'always)) (eglot-rename "author"))
  (save-some-buffers t)
  (with-temp-buffer
    (insert-file-contents (expand-file-name "resources/swarm.yaml" project))
    (cl-assert (string-match-p "entryAgent: Agent/author, agents: \\[{ref: Agent/author}\\]" (buffer-string)) t))
  (eglot-shutdown (eglot-current-server))
  (princ "emacs: all right\n"))
