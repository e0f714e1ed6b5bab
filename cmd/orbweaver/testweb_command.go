package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/netns"
)

// testwebCommand splits the arguments of "testweb" at "--". The command behind it may have any form, so kong does not
// see it. Without "--" the command is nil.
func testwebCommand(args []string) (own, command []string) {
	i := slices.Index(args, "--")
	if i < 0 || args[0] != "testweb" {
		return args, nil
	}
	return args[:i], append([]string{}, args[i+1:]...)
}

// checkCommand refuses flags that contradict the command.
func (c *TestwebCmd) checkCommand() error {
	if c.Command == nil {
		return nil
	}
	if len(c.Command) == 0 || c.Command[0] == "" {
		return bad(`no command follows "--"; name one, such as -- wget2 -r http://a.example/`)
	}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"http-port", c.HTTP != 0}, {"https-port", c.HTTPS != 0}, {"dns-listen", c.DNSListen != defaultListen},
	} {
		if f.given {
			return input.Errorf("--%s cannot be combined with a command: it sees the web at ports 80, 443 and 53; "+
				"remove the flag", f.name)
		}
	}
	return nil
}

// defaultListen is the default of --dns-listen.
const defaultListen = "127.0.0.1:0"

// runCommand runs the command in a network namespace in which only the web exists, passes signals on to it, and reports
// when it has ended. The error has the command's exit code.
func (c *TestwebCmd) runCommand(out io.Writer, s served, signals <-chan os.Signal) error {
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		return input.Errorf("command %s: %v; name a program or its path", c.Command[0],
			errors.Unwrap(err))
	}
	ports := []int{80, 443}
	for _, p := range s.cfg.Ports {
		ports = append(ports, int(p.Number))
	}
	n, err := netns.Open(netns.Config{
		Enter: []string{os.Args[0], "testweb-enter"}, Ports: ports, Addrs: s.cfg.AddressHosts(),
		Command: append([]string{path}, c.Command[1:]...), Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return namespaceError(err)
	}
	defer n.Close()
	k := &n.Sockets
	s.cfg.Sockets = &testweb.Sockets{HTTP: k.TCP[0], HTTPS: k.TCP[1], Ports: k.TCP[2:],
		DNSTCP: k.DNSTCP, DNSUDP: k.DNSUDP}
	w, err := testweb.New(s.cfg)
	if err != nil {
		return webError(err)
	}
	defer w.Close()
	if err := c.writeFiles(w, s); err != nil {
		return err
	}
	if err := c.announce(out, w, s); err != nil {
		return err
	}
	ctx, cancel := c.limited(context.Background())
	defer cancel()
	stop := w.Start()
	began := time.Now()
	code, err := n.Run(ctx, w.CAPEM(), signals)
	took := time.Since(began)
	w.WaitIdle(time.Second) // the command may have read its last response before the web has counted it
	r := w.Report()
	if serr := stop(); serr != nil {
		return fmt.Errorf("testweb: %w", serr)
	}
	if err != nil {
		return namespaceError(err)
	}
	if !c.AsJSON {
		fmt.Fprintf(out, "\ncommand     exit code %d after %s\n", code, testweb.Seconds(took))
	}
	if err := c.report(out, r); err != nil {
		return err
	}
	if code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// namespaceError says what to do if the system does not allow a network namespace.
func namespaceError(err error) error {
	if !errors.Is(err, netns.ErrUnsupported) {
		return fmt.Errorf("testweb: %w", err)
	}
	return input.Errorf("cannot run the command: %v. Run testweb as root, or allow user "+
		"namespaces. Or run it without a command, and give the web to the crawler as its HTTP proxy "+
		"(http_proxy=http://127.0.0.1:PORT; see docs/testweb.md)", err)
}

// TestwebEnterCmd is the process in the network namespace, until it executes the command.
type TestwebEnterCmd struct {
	Addrs   []string `help:"Give the device lo these addresses, too."`
	Ports   string   `arg:"" help:"Listen on these TCP ports."`
	Dir     string   `arg:"" help:"Mount the files of this directory."`
	Command []string `arg:"" passthrough:"" help:"Execute this command."`
}

// Run returns only if the command cannot be executed.
func (c *TestwebEnterCmd) Run() error {
	var ports []int
	for p := range strings.SplitSeq(c.Ports, ",") {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return input.Errorf("port %q: give a number from 1 to 65535", p)
		}
		ports = append(ports, int(n))
	}
	var addrs []netip.Addr
	for _, a := range c.Addrs {
		addr, err := netip.ParseAddr(a)
		if err != nil || !addr.Is4() {
			return bad("address %q: give an IPv4 address", a)
		}
		addrs = append(addrs, addr)
	}
	return netns.Enter(addrs, ports, c.Dir, c.Command[1:], os.Environ()) // the first word is "--"
}
