package warc

// Position returns the final name of the current file and how many of its bytes Flush has handed to the operating
// system. The name is empty if there is no current file.
func (w *Writer) Position() (file string, validBytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return "", 0
	}
	return w.name, w.size - int64(w.out.Buffered())
}
