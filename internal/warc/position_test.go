package warc

// Position returns the final name of the current file and how many of its bytes Flush has handed to the operating
// system. The name is empty if there is no current file.
func (w *Writer) Position() (file string, validBytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.streams[0]
	if s.file == nil {
		return "", 0
	}
	return s.name, s.size - int64(s.out.Buffered())
}
