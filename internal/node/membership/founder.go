package membership

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
)

// lookupPatience bounds the look-up of the names in Config.Join.
const lookupPatience = 3 * time.Second

// errOnlySelf says why no agent was asked.
var errOnlySelf = errors.New("the addresses to join lead to this agent alone")

// checkFounder refuses a founder that cannot begin the cluster.
func (c *Config) checkFounder() error {
	if c.Founder == "" {
		return nil
	}
	if err := rpc.CheckName(c.Founder); err != nil {
		return input.Errorf("{founder}: %v", err)
	}
	if c.Founder != c.Name && len(c.Join) == 0 {
		return input.Errorf("{founder} %s: agent %q joins the cluster that agent %s starts; "+
			"give the address of that agent with {join}", c.Founder, c.Name, c.Founder)
	}
	return nil
}

// spread replaces each contact that is a host name by contacts of all its addresses, because a name
// may lead to several agents, and to this one. A name without an address stays.
func (j *joining) spread(ctx context.Context, cs []contact) (all []contact) {
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	add := func(k contact) {
		i := slices.IndexFunc(all, func(other contact) bool { return other.addr == k.addr })
		if i < 0 {
			all = append(all, k)
			return
		}
		all[i].given = all[i].given || k.given
		if all[i].name == "" {
			all[i].name = k.name
		}
	}
	for _, k := range cs {
		host, port, err := net.SplitHostPort(k.addr)
		if _, literal := netip.ParseAddr(host); err != nil || literal == nil {
			add(k)
			continue
		}
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			add(k) // the call explains what is wrong with the name
		}
		for _, ip := range ips {
			add(contact{addr: net.JoinHostPort(ip.Unmap().String(), port), given: true, of: k.addr})
		}
	}
	return all
}

// withoutSelf drops the contacts that lead to this agent alone. If another agent begins the cluster,
// the names stay: they may lead to it later.
func (j *joining) withoutSelf(cs, asked []contact, ourself []string) []contact {
	return slices.DeleteFunc(cs, func(k contact) bool {
		if slices.Contains(ourself, k.addr) {
			return true
		}
		if j.cfg.Founder != "" {
			return false
		}
		only := false
		for _, a := range asked {
			if a.of == k.addr {
				if !slices.Contains(ourself, a.addr) {
					return false
				}
				only = true
			}
		}
		return only
	})
}
