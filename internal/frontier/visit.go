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

// visits are the visits in progress.
type visits struct {
	all    []visit
	unused []int32 // indexes of visits without a host
	at     []int32 // index of the visit of a name, see slot
}

// visitOf returns the index of h's visit. h must be busy.
func visitOf(h *host) int32 { return -2 - h.pos }

// begin starts a visit of h, which must be in no heap.
func (vs *visits) begin(h *host, e entry, clock int64) {
	var i int32
	if k := len(vs.unused); k > 0 {
		i, vs.unused = vs.unused[k-1], vs.unused[:k-1]
	} else {
		i = int32(len(vs.all))
		vs.all = append(vs.all, visit{})
		if len(vs.all) > len(vs.at)/8 {
			vs.at = make([]int32, max(1024, 2*len(vs.at)))
		}
	}
	vs.all[i] = visit{h: h, name: h.name, link: e, began: clock}
	h.pos = -2 - i
	vs.at[vs.slot(h.name)] = i
}

// end ends the visit of h.
func (vs *visits) end(h *host) {
	i := visitOf(h)
	vs.all[i] = visit{}
	vs.unused = append(vs.unused, i)
	h.pos = -1
}

// link returns the link of h's visit, or nil.
func (vs *visits) link(h *host) *entry {
	if !h.busy() {
		return nil
	}
	return &vs.all[visitOf(h)].link
}

func (vs *visits) began(h *host) int64 { return vs.all[visitOf(h)].began }

// slot returns the index of a name in at. It depends on the memory address of the name's bytes.
func (vs *visits) slot(name string) int {
	x := uint64(uintptr(unsafe.Pointer(unsafe.StringData(name)))) * 0x9e3779b97f4a7c15
	return int(x >> 32 * uint64(len(vs.at)) >> 32)
}

// find returns the host with this name if the caller passes back the string of the Task, without reading a byte of a
// name. It returns nil for any other string, and sometimes for that one, too.
func (vs *visits) find(name string) *host {
	if len(vs.at) == 0 {
		return nil
	}
	v := &vs.all[vs.at[vs.slot(name)]]
	if v.h != nil && len(v.name) == len(name) && unsafe.StringData(v.name) == unsafe.StringData(name) {
		return v.h
	}
	return nil
}

// visited returns the host with this name, or nil. It reads the dictionary only if find does not know the name.
func (hs *hosts) visited(name string) *host {
	if h := hs.visits.find(name); h != nil {
		return h
	}
	return hs.dict.of(name)
}
