package frontier

import "strings"

// ReadAll has the pools read to their end: for who gives all hosts away, and
// takes what is read from their queues as it comes.
func (f *Frontier) ReadAll() { f.active = -1; f.readAll = true }

// ReadSome takes a ReadAll back: what is read stays in its queues.
func (f *Frontier) ReadSome() {
	if f.readAll = false; f.cfg.Active == 0 {
		f.active = activeFor(f.pace.speed, f.quietTime(), f.cfg.MemoryBytes)
	} else {
		f.active = f.cfg.Active
	}
}

// Queued appends the names of hosts that have links in their queues and are not
// in process, most of them at the most. It looks at every host there is.
func (f *Frontier) Queued(dst []string, most int) []string {
	for h := range f.hosts.all() {
		if len(dst) >= most {
			break
		}
		if !h.empty() && !h.busy() {
			dst = append(dst, strings.Clone(h.name))
		}
	}
	return dst
}
