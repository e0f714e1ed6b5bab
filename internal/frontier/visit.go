package frontier

import (
	"errors"
	"unsafe"
)

// ErrNotInProcess is a Done for a host that Next has not given out.
var ErrNotInProcess = errors.New("host is not in process")

// A visit is what only a host has that was given out: the caller has as many
// at once as it has workers, so these lie together and are used again at once.
type visit struct {
	h     *host // nil: free
	name  string
	link  entry
	began int64 // in process or resolving since
}

// visitOf is the number of the visit of h, which is busy.
func visitOf(h *host) int32 { return -2 - h.pos }

// visit begins one of h, which is in no heap.
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

// leaveVisit ends h's visit.
func (f *Frontier) leaveVisit(h *host) {
	i := visitOf(h)
	f.visits[i] = visit{}
	f.freeVisits = append(f.freeVisits, i)
	h.pos = -1
}

// cur is the link of h's visit, nil if there is none.
func (f *Frontier) cur(h *host) *entry {
	if !h.busy() {
		return nil
	}
	return &f.visits[visitOf(h)].link
}

func (f *Frontier) began(h *host) int64 { return f.visits[visitOf(h)].began }

// visitSlot is where a name is noted in visitAt: by where its bytes lie.
func (f *Frontier) visitSlot(name string) int {
	x := uint64(uintptr(unsafe.Pointer(unsafe.StringData(name)))) * 0x9e3779b97f4a7c15
	return int(x >> 32 * uint64(len(f.visitAt)) >> 32)
}

// visited is the host with this name, nil if it is not in the dictionary. A
// caller who has kept the Task's name gives it back as it is, and so it is found
// without a look at the dictionary, the host's name and the bytes of either.
func (f *Frontier) visited(name string) *host {
	if len(f.visitAt) > 0 {
		v := &f.visits[f.visitAt[f.visitSlot(name)]]
		if v.h != nil && len(v.name) == len(name) && unsafe.StringData(v.name) == unsafe.StringData(name) {
			return v.h
		}
	}
	return f.hosts.of(name)
}
