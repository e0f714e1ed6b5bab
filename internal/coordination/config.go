package coordination

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/consensus"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/dns"
)

// The values of Config.Assign.
const (
	// AssignRoundRobin gives new hosts to the agents in turn, weighted by capacity.
	AssignRoundRobin = "roundrobin"
	// AssignLeastLoaded gives new hosts to the agents with the fewest waiting URLs for their capacity.
	AssignLeastLoaded = "least-loaded"
)

// Assignments returns the values of Config.Assign.
func Assignments() []string { return []string{AssignRoundRobin, AssignLeastLoaded} }

// A Config configures a coordinator: a process that assigns hosts to the agents of a crawl with
// --partition=sites. Dir and Listen are required.
type Config struct {
	// Name is the coordinator's name in its status. Empty means that of the keys, or "coordinator" without keys.
	Name string
	// Version is the version of the program, for the status.
	Version string
	// Dir is the directory of the coordinator's files. Only one process may use it at a time. It keeps the assignments
	// of one crawl.
	Dir string
	// FS is the file system of Dir and Keys. Nil means the machine's disk.
	FS disk.FS
	// Listen is the IP address and the port for agents and for other coordinators. It must be a loopback address,
	// unless there are Keys.
	Listen string
	// Members are the addresses of all coordinators of the crawl, Self among them: the same 1, 3 or 5 at each of
	// them. Empty means that this coordinator is alone.
	Members []string
	// Self is this coordinator's address in Members. Empty means Listen.
	Self string
	// Keys is the directory that "cluster keys --coordinators" made for this coordinator.
	Keys string
	// Assign is how the coordinators choose the agent of a new host: AssignRoundRobin or AssignLeastLoaded. Empty
	// means AssignRoundRobin. That of the leading coordinator counts.
	Assign string
	// DNS configures the resolver that finds out whether hosts exist.
	DNS dns.Config
	// Unchecked assigns hosts without a look-up, for example because the agents use a proxy.
	Unchecked bool
	// Network opens the connections. Nil means the machine's network.
	Network rpc.Network
	// Clock is the clock for events.jsonl, answers of name servers and certificates. Nil means clock.System.
	Clock clock.Clock
	// Events also receives the events of events.jsonl. Nil: nobody does.
	Events consensus.Events
	// LogBytes is how much the log grows at least until it is replaced by a snapshot. Zero means 64 MiB.
	LogBytes int64
}

// Check returns an *input.ConfigError if the configuration cannot work. It opens no port and changes no file.
func (c *Config) Check() error {
	_, err := c.check()
	return err
}

func (c *Config) check() (*rpc.Keys, error) {
	if c.Dir == "" {
		return nil, input.Errorf("no directory for the coordinator: give one with {dir}")
	}
	fs := cmp.Or(c.FS, disk.OS)
	var keys *rpc.Keys
	if c.Keys != "" {
		var err error
		if keys, err = rpc.LoadKeys(fs, c.Keys, c.Clock); err != nil {
			return nil, rpc.KeysError(c.Keys, "this coordinator", err)
		}
		if !keys.Coordinator() {
			return nil, input.Errorf("{keys} %s: these are the keys of agent %q, not of a coordinator; make some "+
				"with \"orbweaver cluster keys {coordinators} NAME\"", c.Keys, keys.Name())
		}
	}
	if c.Assign != "" && !slices.Contains(Assignments(), c.Assign) {
		return nil, input.Errorf("{assign} %s: give %s or %s", c.Assign, AssignRoundRobin, AssignLeastLoaded)
	}
	if err := rpc.CheckListen(c.Listen, keys); err != nil {
		return nil, input.SettingError(err)
	}
	if ap := netip.MustParseAddrPort(c.Listen); ap.Addr().IsUnspecified() {
		return nil, input.Errorf("{listen} %s: agents cannot reach the unspecified address; "+
			"give the address at which they reach this machine", c.Listen)
	}
	if err := checkMembers(c.Members, cmp.Or(c.Self, c.Listen), c.Keys); err != nil {
		return nil, err
	}
	if c.Unchecked {
		return keys, nil
	}
	r, err := dns.New(c.DNS)
	if err != nil {
		return nil, input.SettingError(err)
	}
	return keys, r.Close()
}

// checkMembers refuses a list of coordinators that cannot work for the one with the address self.
func checkMembers(members []string, self, keys string) error {
	if len(members) == 0 {
		return nil
	}
	if n := len(members); n%2 == 0 || n > consensus.MaxMembers {
		return input.Errorf("{coordinator} names %d coordinators; give 1, 3 or 5: they work as long as more than "+
			"half run", n)
	}
	if err := CheckAddresses(members, keys); err != nil {
		return err
	}
	if !slices.Contains(members, self) {
		return input.Errorf("{listen} %s is not in the list of {coordinator}; give all coordinators the same list",
			self)
	}
	return nil
}

// CheckAddresses returns an *input.ConfigError unless the addresses of a crawl's coordinators are valid, and a process
// with keys in this directory, or without keys, can reach them.
func CheckAddresses(addrs []string, keys string) error {
	if n := len(addrs); n > consensus.MaxMembers {
		return input.Errorf("{coordinator} names %d coordinators; there are at most %d", n, consensus.MaxMembers)
	}
	for i, addr := range addrs {
		if err := checkAddress(addr, keys); err != nil {
			return err
		}
		if slices.Contains(addrs[:i], addr) {
			return input.Errorf("{coordinator} names %s twice; give each coordinator once", addr)
		}
	}
	return nil
}

// checkAddress is CheckAddresses for one of them.
func checkAddress(addr, keys string) error {
	if err := input.CheckAddress("coordinator", addr); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(addr)
	if ip, err := netip.ParseAddr(host); err == nil && keys == "" && !ip.Unmap().IsLoopback() {
		return input.Errorf("{coordinator} %s: coordinators on other machines answer only with keys; "+
			"give some with {keys}", addr)
	}
	return nil
}
