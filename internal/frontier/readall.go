package frontier

import "strings"

// ReadAll makes Next read the pools to their end, even if Config.Active hosts are ready. It is for a caller that hands
// all hosts over and takes the links from the queues as they arrive.
func (f *Frontier) ReadAll() { f.active = -1; f.readAll = true }

// ReadSome ends a ReadAll. Links that were read stay in their queues.
func (f *Frontier) ReadSome() {
	if f.readAll = false; f.cfg.Active == 0 {
		f.active = activeFor(f.pace.speed, f.cfg.quietTime(), f.cfg.MemoryBytes)
	} else {
		f.active = f.cfg.Active
	}
}

// Queued appends the names of up to most hosts that have links in their queues and are not in process. Its cost grows
// with the number of hosts in the dictionary.
func (f *Frontier) Queued(dst []string, most int) []string {
	for h := range f.hosts.dict.all() {
		if len(dst) >= most {
			break
		}
		if !h.empty() && !h.busy() {
			dst = append(dst, strings.Clone(h.name))
		}
	}
	return dst
}
