package rpc

import (
	"cmp"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

func agentToWire(a Agent) *pb.Agent {
	return &pb.Agent{Name: a.Name, Instance: a.Instance[:], Boot: a.Boot, Capacity: a.Capacity, Address: a.Addr,
		State: uint32(a.State)}
}

func agentFromWire(w *pb.Agent) (a Agent, err error) {
	if w == nil {
		return a, malformed("no agent")
	}
	if err := CheckName(w.Name); err != nil {
		return a, malformed("%v", err)
	}
	if a.Instance, err = idFromWire(w.Instance); err != nil {
		return a, err
	}
	if err := cmp.Or(CheckCapacity(w.Capacity), CheckAddress(w.Address), checkState(w.State)); err != nil {
		return a, err
	}
	a.Name, a.Boot, a.Capacity, a.Addr, a.State = w.Name, w.Boot, w.Capacity, w.Address, uint8(w.State)
	return a, nil
}

func idFromWire(b []byte) (id ID, err error) {
	if len(b) != len(id) {
		return id, malformed("id of %d octets", len(b))
	}
	return ID(b), nil
}

// CheckAddress returns ErrMalformed unless addr is a host and a port.
func CheckAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || len(addr) > maxAddress {
		return malformed("address %.64q", addr)
	}
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return malformed("address %.64q", addr)
	}
	return nil
}

// CheckCapacity returns ErrMalformed unless c may be the capacity of an agent.
func CheckCapacity(c float64) error {
	if !(c > 0 && c <= maxCapacity) { // also refuses NaN
		return malformed("capacity %v", c)
	}
	return nil
}

func checkState(s uint32) error {
	if s > math.MaxUint8 {
		return malformed("state %d", s)
	}
	return nil
}

// CheckSettings returns ErrMalformed if there are too many settings, or one is too long.
func CheckSettings(settings map[string]string) error {
	if len(settings) > maxSettings {
		return malformed("%d settings", len(settings))
	}
	for k, v := range settings {
		if len(k) > maxSetting || len(v) > maxSetting {
			return malformed("setting %.64q", k)
		}
	}
	return nil
}

func helloToWire(h Hello) *pb.HelloRequest {
	return &pb.HelloRequest{Agent: agentToWire(h.Agent), Settings: h.Settings}
}

func helloFromWire(w *pb.HelloRequest) (h Hello, err error) {
	if h.Agent, err = agentFromWire(w.Agent); err != nil {
		return h, err
	}
	h.Settings = w.Settings
	return h, CheckSettings(w.Settings)
}

func welcomeToWire(v Welcome) *pb.HelloResponse {
	w := &pb.HelloResponse{Agent: agentToWire(v.Agent), Crawl: v.Crawl[:],
		ElapsedMs: uint64(max(0, v.Elapsed.Milliseconds()))}
	for _, a := range v.Agents {
		w.Agents = append(w.Agents, agentToWire(a))
	}
	return w
}

func welcomeFromWire(w *pb.HelloResponse) (v Welcome, err error) {
	if v.Agent, err = agentFromWire(w.Agent); err != nil {
		return v, err
	}
	if v.Crawl, err = idFromWire(w.Crawl); err != nil {
		return v, err
	}
	if w.ElapsedMs > uint64(math.MaxInt64/time.Millisecond) {
		return v, malformed("elapsed %d ms", w.ElapsedMs)
	}
	v.Elapsed = time.Duration(w.ElapsedMs) * time.Millisecond
	if len(w.Agents) > maxAgents {
		return v, malformed("%d agents", len(w.Agents))
	}
	for _, wa := range w.Agents {
		a, err := agentFromWire(wa)
		if err != nil {
			return v, err
		}
		v.Agents = append(v.Agents, a)
	}
	return v, nil
}

// CheckHosts returns ErrMalformed unless there are 1 to MaxHosts hosts, each in its canonical form.
func CheckHosts(hosts []string) error {
	if len(hosts) == 0 || len(hosts) > MaxHosts {
		return malformed("%d hosts", len(hosts))
	}
	for _, h := range hosts {
		if err := checkHost(h); err != nil {
			return err
		}
	}
	return nil
}

// CheckBatch returns ErrTooLarge if b has more than MaxData octets.
func CheckBatch(b []byte) error {
	if len(b) > MaxData {
		return ErrTooLarge
	}
	return nil
}
