package membership

import (
	"net"
	"net/netip"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Check refuses a configuration that cannot work.
func (c *Config) Check(fsys disk.FS, clock clock.Clock) (*rpc.Keys, error) {
	if err := rpc.CheckName(c.Name); err != nil {
		return nil, input.Errorf("{name}: %v", err)
	}
	var keys *rpc.Keys
	if c.Keys != "" {
		var err error
		if keys, err = rpc.LoadKeys(fsys, c.Keys, clock); err != nil {
			return nil, rpc.KeysError(c.Keys, "this agent", err)
		}
		if keys.Coordinator() {
			return nil, input.Errorf("{keys} %s: these are the keys of coordinator %q, not of an agent; "+
				"give the directory that has this agent's keys", c.Keys, keys.Name())
		}
		if keys.Name() != c.Name {
			return nil, input.Errorf("{keys} %s: these are the keys of agent %q, not of %q; "+
				"give the directory that has this agent's keys, or correct {name}", c.Keys, keys.Name(), c.Name)
		}
	}
	if err := c.CheckDivision(); err != nil {
		return nil, err
	}
	if err := rpc.CheckListen(c.Listen, keys); err != nil {
		return nil, input.SettingError(err)
	}
	if ap := netip.MustParseAddrPort(c.Listen); ap.Addr().IsUnspecified() {
		return nil, input.Errorf("{listen} %s: other agents cannot reach the unspecified address; "+
			"give the address at which they reach this machine", c.Listen)
	}
	for _, addr := range c.Join {
		host, port, err := net.SplitHostPort(addr)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			return nil, input.Errorf("{join} %q: give an address and a port, such as 192.0.2.1:7470", addr)
		}
	}
	if err := c.checkFounder(); err != nil {
		return nil, err
	}
	if err := c.checkAgents([]placement.Owner{{Name: c.Name, Capacity: c.Capacity}}); err != nil {
		return nil, input.Errorf("%v", err)
	}
	return keys, nil
}

// TryPort refuses a port that the agent cannot listen on. Otherwise it returns the address that the
// agent would have.
func (c *Config) TryPort(fsys disk.FS, clock clock.Clock) (addr string, err error) {
	keys, err := c.Check(fsys, clock)
	if err != nil {
		return "", err
	}
	l, err := rpc.Listen(c.network(), c.Listen, keys)
	if err != nil {
		return "", input.SettingError(err)
	}
	return l.Addr(), l.Close()
}
