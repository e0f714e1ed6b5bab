package frontier

import (
	"errors"
	"unsafe"
)

// ErrNotInProcess means that Done named a host that is not in process.
var ErrNotInProcess = errors.New("host is not in process")

// A visit holds what only a host that was given out has. There are at most as many as the caller has workers. They lie
// together in memory and are reused at once.
type visit struct {
	h     *host // nil: unused
	name  string
	link  entry
	began int64 // when it was given out
}

// visitOf returns the index of h's visit. h must be busy.
func visitOf(h *host) int32 { return -2 - h.pos }

// visit starts a visit of h, which must be in no heap.
func (f *Frontier) visit(h *host, e entry) {
	var i int32
	if k := len(f.freeVisits); k > 0 {
		i, f.freeVisits = f.freeVisits[k-1], f.freeVisits[:k-1]
	} else {
		i = int32(len(f.visits))
		f.visits = append(f.visits, visit{})
		if len(f.visits) > len(f.visitAt)/8 {
			f.visitAt = make([]int32, max(1024, 2*len(f.visitAt)))
		}
	}
	f.visits[i] = visit{h: h, name: h.name, link: e, began: f.clock}
	h.pos = -2 - i
	f.visitAt[f.visitSlot(h.name)] = i
}

// leaveVisit ends the visit of h.
func (f *Frontier) leaveVisit(h *host) {
	i := visitOf(h)
	f.visits[i] = visit{}
	f.freeVisits = append(f.freeVisits, i)
	h.pos = -1
}

// cur returns the link of h's visit, or nil.
func (f *Frontier) cur(h *host) *entry {
	if !h.busy() {
		return nil
	}
	return &f.visits[visitOf(h)].link
}

func (f *Frontier) began(h *host) int64 { return f.visits[visitOf(h)].began }

// visitSlot returns the index of a name in visitAt. It depends on the memory address of the name's bytes.
func (f *Frontier) visitSlot(name string) int {
	x := uint64(uintptr(unsafe.Pointer(unsafe.StringData(name)))) * 0x9e3779b97f4a7c15
	return int(x >> 32 * uint64(len(f.visitAt)) >> 32)
}

// visited returns the host with this name, or nil. If the caller passes back the string of the Task, the visit is found
// without reading the dictionary, the host's name, or the bytes of either.
func (f *Frontier) visited(name string) *host {
	if len(f.visitAt) > 0 {
		v := &f.visits[f.visitAt[f.visitSlot(name)]]
		if v.h != nil && len(v.name) == len(name) && unsafe.StringData(v.name) == unsafe.StringData(name) {
			return v.h
		}
	}
	return f.hosts.of(name)
}
