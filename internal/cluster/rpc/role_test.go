package rpc_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestRoles: an agent cannot take the place of a coordinator, nor a coordinator that of an agent, whichever side it is.
func TestRoles(t *testing.T) {
	ctx := t.Context()
	reached := func(call string, _ rpc.Caller, _ any) (any, error) { t.Error("reached: " + call); return nil, nil }
	withKeys(t, []string{"a1", "a2", "c1"}, func(t *testing.T, keys map[string]*rpc.Keys) {
		agent, agents, coord, coords := processes(t, keys, reached)
		want := uint64(0)
		for _, e := range samples {
			l, text := coord, "a coordinator answers there, not an agent of Orbweaver"
			if toCoordinator(e.call) {
				l, text = agent, "an agent answers there, not a coordinator of Orbweaver"
			}
			_, err := e.calls(ctx, client(t, keys["a1"], caller("a1"), nil), l)
			if f, ok := rpc.Lasting(err).(*rpc.ForeignError); !ok || f.Error() != text {
				t.Errorf("%s: %v, want %q", e.call, err, text)
			}
			if keys == nil {
				want++
			}
		}
		err := hello(t, client(t, keys["a1"], caller("a1"), nil), coord.Addr())
		if _, ok := rpc.Lasting(err).(*rpc.ForeignError); !ok {
			t.Errorf("Hello to an address: %v", err)
		}
		if n := agents.Counts().Refused["role"] + coords.Counts().Refused["role"]; keys == nil && n != want+1 {
			t.Errorf("%d refused, want %d", n, want+1)
		}
		for _, dial := range []func() (net.Conn, error){
			func() (net.Conn, error) { return rpc.DialRaft(ctx, keys["c1"], nil, agent.Addr(), "") },
			func() (net.Conn, error) { return rpc.DialGossip(ctx, keys["a2"], nil, coord.Addr(), "") },
		} {
			conn, err := dial()
			if err == nil { // without keys, the other side closes the connection
				_, err = io.ReadFull(conn, make([]byte, 1))
				conn.Close()
			}
			if err == nil || keys != nil && !errors.As(err, new(*rpc.ForeignError)) {
				t.Errorf("a stream: %v", err)
			}
		}
	})

	keys, others := bundles(t, "a1", "a2", "c1", "c2"), bundles(t, "a1", "c1")
	agent, agents, coord, coords := processes(t, keys, reached)
	refused := func() (roles, strangers uint64) {
		a, c := agents.Counts().Refused, coords.Counts().Refused
		return a["role"] + c["role"], a["stranger"] + c["stranger"]
	}
	want := uint64(0)
	for _, e := range samples {
		l, by := agent, "c2"
		if toCoordinator(e.call) {
			l = coord
		}
		switch e.call {
		case "Status": // any may call it
			continue
		case "Forget":
			by = "a1"
		}
		want++
		_, err := e.calls(ctx, client(t, keys[by], caller(by), nil), l)
		if text := `caller "` + by + `" may not call ` + e.call; !errors.Is(err, rpc.ErrRejected) ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", e.call, err, text)
		}
	}
	if n, _ := refused(); n != want {
		t.Errorf("%d refused, want %d", n, want)
	}
	for _, c := range []struct {
		proto, from string
		l           *rpc.Listener
	}{
		{"orb-raft1", "a1", coord},
		{"orb-gossip1", "c2", agent},
		{"orb-raft1", "c2", agent},   // an agent has no such streams
		{"orb-gossip1", "a1", coord}, // nor a coordinator
	} {
		want++
		_, strangers := refused()
		refuses(t, c.proto+" of "+c.from, c.l.Addr(), &tls.Config{NextProtos: []string{c.proto},
			Certificates: []tls.Certificate{*keys[c.from].Certificate()}})
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			n, now := refused() // the alert may arrive before the refusal is counted
			if n == want && now == strangers {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s of %s: %d refused for the role, want %d, %d strangers", c.proto, c.from, n, want,
					now-strangers)
			}
		}
	}
	follow := of(rpc.CallFollow)
	_, err := follow.calls(ctx, client(t, others["a1"], caller("a1"), nil), coord)
	if !errors.Is(err, rpc.ErrStranger) {
		t.Errorf("Follow of another cluster's agent: %v", err)
	}
	if _, err := rpc.DialRaft(ctx, others["c1"], nil, coord.Addr(), ""); !errors.Is(err, rpc.ErrStranger) {
		t.Errorf("a stream of another cluster's coordinator: %v", err)
	}
	theirs, _ := coordinator(t, rpc.System, "127.0.0.1:0", others["c1"], reached)
	if _, err := follow.calls(ctx, client(t, keys["a1"], caller("a1"), nil), theirs); !errors.Is(err, rpc.ErrStranger) {
		t.Errorf("Follow of another cluster's coordinator: %v", err)
	}
	_, stream := rpc.DialRaft(ctx, keys["a1"], nil, coord.Addr(), "")
	_, gossip := rpc.DialGossip(ctx, keys["c1"], nil, agent.Addr(), "")
	_, port := rpc.Listen(rpc.System, "127.0.0.1:0", keys["c1"])
	_, portOfCoordinator := rpc.ListenCoordinator(rpc.System, "127.0.0.1:0", keys["a1"])
	for _, err := range []error{stream, gossip, port, portOfCoordinator} {
		if !errors.Is(err, rpc.ErrKeys) || !strings.Contains(err.Error(), "these are the keys of a") {
			t.Errorf("the keys of the other role: %v", err)
		}
	}
	for name, k := range keys {
		if k.Coordinator() != strings.HasPrefix(name, "c") || k.Coordinator() == (k.Gossip() != nil) {
			t.Errorf("%s is a coordinator: %v, with a secret of %d octets", name, k.Coordinator(), len(k.Gossip()))
		}
	}
}

// TestRoleOfBundle: the role is in the certificate. The names of the files do not change it, and a role of another
// version is refused.
func TestRoleOfBundle(t *testing.T) {
	mem, keys := issue(t, "a1", "c1")
	agent, coord := filepath.Join("keys", "a1"), filepath.Join("keys", "c1")
	if a, err := rpc.OpenAuthority(mem, "keys", time.Now()); err != nil {
		t.Error(err)
	} else if _, err := a.Issue("c1"); !errors.Is(err, rpc.ErrExists) {
		t.Errorf("an agent with a coordinator's name: %v", err)
	}
	if _, err := mem.Stat(filepath.Join(coord, "gossip.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a coordinator has the secret of gossip: %v", err)
	}
	read := func(dir, name string) []byte {
		b := must.Get(disk.ReadFile(mem, filepath.Join(dir, name), 1<<20))(t)
		return b
	}
	write := func(dir, name string, b []byte) {
		mem.Remove(filepath.Join(dir, name))
		must.Do(t, disk.WriteSecret(mem, filepath.Join(dir, name), b))
	}
	try := func(dir, want string) {
		t.Helper()
		if _, err := rpc.LoadKeys(mem, dir, nil); !errors.Is(err, rpc.ErrKeys) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// A certificate of the authority with a role that no agent of today knows.
	block := func(b []byte) []byte { p, _ := pem.Decode(b); return p.Bytes }
	private := must.Get(x509.ParsePKCS8PrivateKey(block(read(filepath.Join("keys", "authority"), "ca.key"))))(t)
	authority := must.Get(x509.ParseCertificate(block(read(agent, "ca.pem"))))(t)
	leaf := *keys["c1"].Certificate().Leaf
	leaf.RawSubject, leaf.Subject.OrganizationalUnit = nil, []string{"coordinator", "archivist"}
	der := must.Get(x509.CreateCertificate(rand.Reader, &leaf, authority, leaf.PublicKey, private))(t)
	good := read(coord, "coordinator.pem")
	write(coord, "coordinator.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	try(coord, `unknown role, ["archivist" "coordinator"]`)
	// Files of a coordinator, with the names of an agent's, and the other way round.
	third := filepath.Join("keys", "x1")
	must.Do(t, mem.MkdirAll(third, 0o700))
	write(third, "ca.pem", read(agent, "ca.pem"))
	write(third, "agent.pem", good)
	write(third, "agent.key", read(coord, "coordinator.key"))
	write(third, "gossip.key", read(agent, "gossip.key"))
	try(third, "it is a coordinator, not an agent")
	write(agent, "coordinator.pem", read(agent, "agent.pem"))
	write(agent, "coordinator.key", read(agent, "agent.key"))
	try(agent, "it is an agent, not a coordinator")
}
