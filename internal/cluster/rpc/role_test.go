package rpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
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

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestRoles: an agent cannot take the place of a coordinator, nor a coordinator that of an agent, whichever side it is.
func TestRoles(t *testing.T) {
	keys, others := bundles(t, "a1", "a2", "c1", "c2"), bundles(t, "a1", "c1")
	reached := func() error { t.Error("a handler was reached"); return nil }
	h := Handlers{
		Hello:  func(context.Context, Caller, Hello) (Welcome, error) { return Welcome{}, reached() },
		Push:   func(context.Context, Caller, Links) error { return reached() },
		Orders: func(context.Context, Caller, Orders) (OrdersAnswer, error) { return OrdersAnswer{}, reached() },
		Operate: func(context.Context, Caller, Operation) (OperationAnswer, error) {
			return OperationAnswer{}, reached()
		},
	}
	co := Coordination{
		Discover: func(context.Context, Caller, Discovery) ([]HostAnswer, error) { return nil, reached() },
		Follow:   func(context.Context, Caller, Follow) (Followed, error) { return Followed{}, reached() },
		Finish:   func(context.Context, Caller, Finish) error { return reached() },
	}
	ctx := t.Context()
	push := func(p *Peer) error { return p.Push(ctx, links("http://a.example/")) }
	hello := Hello{Agent: Agent{Name: "a1", Instance: ID{9, 2}, Boot: 3, Capacity: 1, Addr: "127.0.0.1:1", State: 1}}
	orders := func(p *Peer) error { _, err := p.Orders(ctx, Orders{}); return err }
	operate := func(p *Peer) error { _, err := p.Operate(ctx, Operation{Method: "Pause"}); return err }
	discover := func(c Coordinator) error {
		_, err := c.Discover(ctx, Discovery{Hosts: []string{"a.example"}})
		return err
	}
	follow := func(c Coordinator) error { _, err := c.Follow(ctx, aFollow()); return err }
	foreign := func(t *testing.T, err error, want string) {
		t.Helper()
		if f, ok := Lasting(err).(*ForeignError); !ok || f.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	const noAgent = "a coordinator answers there, not an agent of Orbweaver"
	const noCoordinator = "an agent answers there, not a coordinator of Orbweaver"

	for _, secure := range []bool{false, true} {
		name, a, c := "without keys", (*Keys)(nil), (*Keys)(nil)
		if secure {
			name, a, c = "with keys", keys["a2"], keys["c1"]
		}
		agent, agentServer := serve(t, a, h)
		coord, coordServer := coordinate(t, c, co)
		t.Run("the wrong address, "+name, func(t *testing.T) {
			ours := client(t, keys["a1"], caller("a1"), nil)
			if !secure {
				ours = client(t, nil, caller("a1"), nil)
			}
			foreign(t, push(ours.Peer("c1", coord.Addr())), noAgent)
			_, err := ours.Hello(ctx, coord.Addr(), hello)
			foreign(t, err, noAgent)
			foreign(t, follow(ours.Coordinator(agent.Addr())), noCoordinator)
			foreign(t, discover(ours.Coordinator(agent.Addr())), noCoordinator)
			if n, m := agentServer.Counts().Refused["role"], coordServer.Counts().Refused["role"]; !secure && n+m != 4 {
				t.Errorf("%d and %d refused", n, m)
			}
		})
		t.Run("the wrong stream, "+name, func(t *testing.T) {
			for _, dial := range []func() (net.Conn, error){
				func() (net.Conn, error) { return DialRaft(ctx, c, nil, agent.Addr(), "") },
				func() (net.Conn, error) { return DialGossip(ctx, a, nil, coord.Addr(), "") },
			} {
				conn, err := dial()
				if err == nil { // without keys, the other side closes the connection
					_, err = io.ReadFull(conn, make([]byte, 1))
					conn.Close()
				}
				if err == nil || secure && errors.As(err, new(*ForeignError)) != true {
					t.Errorf("a stream: %v", err)
				}
			}
		})
	}

	agent, agentServer := serve(t, keys["a2"], h)
	coord, coordServer := coordinate(t, keys["c1"], co)
	t.Run("calls of a coordinator", func(t *testing.T) {
		c := client(t, keys["c2"], caller("c2"), nil)
		for what, err := range map[string]error{
			"Push": push(c.Peer("a2", agent.Addr())), "Discover": discover(c.Coordinator(coord.Addr())),
			"Orders": orders(c.Peer("a2", agent.Addr())), "Operate": operate(c.Peer("a2", agent.Addr())),
			"Follow": follow(c.Coordinator(coord.Addr())), "Finish": c.Coordinator(coord.Addr()).Finish(ctx, Finish{}),
		} {
			if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), `caller "c2" may not call `+what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n, m := agentServer.Counts().Refused["role"], coordServer.Counts().Refused["role"]; n != 3 || m != 3 {
			t.Errorf("%d and %d refused", n, m)
		}
	})
	t.Run("a certificate that a client does not check", func(t *testing.T) {
		for _, c := range []struct {
			proto, from string
			l           *Listener
		}{
			{protoRaft, "a1", coord},
			{protoGossip, "c2", agent},
			{protoRaft, "c2", agent},   // an agent has no such streams
			{protoGossip, "a1", coord}, // nor a coordinator
		} {
			role, stranger := c.l.counts.refused[WrongRole].Load(), c.l.counts.refused[Stranger].Load()
			conn, err := tls.Dial("tcp", c.l.Addr(), &tls.Config{InsecureSkipVerify: true,
				NextProtos: []string{c.proto}, Certificates: []tls.Certificate{keys[c.from].cert}})
			if err == nil { // the client learns of the refusal at its first read
				conn.SetDeadline(time.Now().Add(10 * time.Second))
				_, err = io.ReadFull(conn, make([]byte, 1))
				conn.Close()
			}
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s of %s got in: %v", c.proto, c.from, err)
			}
			counted := func() uint64 { return c.l.counts.refused[WrongRole].Load() - role }
			for end := time.Now().Add(20 * time.Second); counted() == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond) // the alert may arrive before the refusal is counted
			}
			if n := counted(); n != 1 || c.l.counts.refused[Stranger].Load() != stranger {
				t.Errorf("%s of %s: refused %d times for the role", c.proto, c.from, n)
			}
		}
	})
	t.Run("another cluster", func(t *testing.T) {
		theirAgent, ourAgent := client(t, others["a1"], caller("a1"), nil), client(t, keys["a1"], caller("a1"), nil)
		if err := follow(theirAgent.Coordinator(coord.Addr())); !errors.Is(err, ErrStranger) {
			t.Errorf("Follow: %v", err)
		}
		if conn, err := DialRaft(ctx, others["c1"], nil, coord.Addr(), ""); !errors.Is(err, ErrStranger) {
			t.Errorf("a stream of another cluster's coordinator: %v, %v", conn, err)
		}
		theirs, _ := coordinate(t, others["c1"], co)
		if err := follow(ourAgent.Coordinator(theirs.Addr())); !errors.Is(err, ErrStranger) {
			t.Errorf("Follow: %v", err)
		}
	})
	t.Run("the wrong keys", func(t *testing.T) {
		_, stream := DialRaft(ctx, keys["a1"], nil, coord.Addr(), "")
		_, gossip := DialGossip(ctx, keys["c1"], nil, agent.Addr(), "")
		_, port := Listen(System, "127.0.0.1:0", keys["c1"])
		_, portOfCoordinator := ListenCoordinator(System, "127.0.0.1:0", keys["a1"])
		for _, err := range []error{stream, gossip, port, portOfCoordinator} {
			if !errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), "these are the keys of a") {
				t.Errorf("%v", err)
			}
		}
	})
	for name, k := range keys {
		if k.Coordinator() != strings.HasPrefix(name, "c") || k.Coordinator() == (k.Gossip() != nil) {
			t.Errorf("%s is a coordinator: %v, with a secret of %d octets", name, k.Coordinator(), len(k.Gossip()))
		}
	}
}

// TestRoleOfBundle: the role is in the certificate. The names of the files do not change it, and a role of another
// version is refused.
func TestRoleOfBundle(t *testing.T) {
	mem := testdisk.NewMem()
	a, err := OpenAuthority(mem, "keys", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	agent, err := a.Issue("a1")
	if err != nil {
		t.Fatal(err)
	}
	coord, err := a.IssueCoordinator("c1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Issue("c1"); !errors.Is(err, ErrExists) {
		t.Errorf("an agent with a coordinator's name: %v", err)
	}
	if _, err := mem.Stat(filepath.Join(coord, gossipFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a coordinator has the secret of gossip: %v", err)
	}
	copied := func(from, to string) {
		b, err := disk.ReadFile(mem, from, maxKeyFile)
		if err == nil {
			err = disk.WriteSecret(mem, to, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	try := func(dir, want string) {
		t.Helper()
		if _, err := LoadKeys(mem, dir, nil); !errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Files of an agent, with the names of a coordinator's.
	copied(filepath.Join(agent, certFile), filepath.Join(agent, coordinatorCertFile))
	copied(filepath.Join(agent, keyFile), filepath.Join(agent, coordinatorKeyFile))
	try(agent, "it is an agent, not a coordinator")
	// The other way round.
	for _, f := range [][2]string{{coordinatorCertFile, certFile}, {coordinatorKeyFile, keyFile}} {
		if err := mem.Rename(filepath.Join(coord, f[0]), filepath.Join(coord, f[1])); err != nil {
			t.Fatal(err)
		}
	}
	copied(filepath.Join(agent, gossipFile), filepath.Join(coord, gossipFile))
	try(coord, "it is a coordinator, not an agent")

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := a.template("a1")
	leaf.DNSNames, leaf.Subject.OrganizationalUnit = []string{"a1"}, []string{"coordinator", "archivist"}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: der})
	_, err = newKeys("keys/a1", coordinatorRole, a.pem, cert, private, nil, nil)
	if !errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), `unknown role, ["archivist" "coordinator"]`) {
		t.Errorf("%v", err)
	}
}
