// Package process answers: which Chromium may run here, and how does it start, stay within its bounds, and end?
//
//	Find -> Program -> Start -> Process{Conn} -> Memory -> End
//
// A browser runs the code of hostile pages. So its processes have an empty profile, an environment without the
// crawler's secrets, the sandbox of Chromium, and no way to the network but a proxy that is named for each view:
// without one it cannot look up a name or connect. Nothing of it is left after End, nor after a kill of the crawler.
package process

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"

	"github.com/orbweaver/orbweaver/internal/web/browser/devtools"
)

var (
	// ErrRoot: the sandbox of Chromium does not work for root.
	ErrRoot = errors.New("the sandbox of Chromium does not run as root")
	// ErrSandbox: this machine does not permit the sandbox of Chromium.
	ErrSandbox = errors.New("this machine does not permit the sandbox of Chromium (user namespaces)")
	// ErrStart: the browser has ended before it could be steered.
	ErrStart = errors.New("the browser does not start")
)

// startWithin bounds the start of a browser, also on a busy machine.
const startWithin = time.Minute

// Config describes how a browser runs.
type Config struct {
	Program Program
	// Dir has the profiles, each in a folder of its own, which End removes.
	Dir string
	// Environ is the crawler's environment, as os.Environ returns it. The browser sees a part of it.
	Environ []string
	// NoSandbox lets a page that breaks out of the browser's renderer act as the crawler's user.
	NoSandbox bool
	// Pin names the key of the authority that vouches for all servers.
	Pin string
	// UserAgent is what scripts see as navigator.userAgent.
	UserAgent string
	// Language is what scripts see as navigator.language. "" means "en-US".
	Language string
	// Width and Height of a view, in pixels. Zero means 1280 and 800.
	Width, Height int
	// NetLog is a file into which the browser writes what its network does; "": it writes none.
	NetLog string
	// Heap bounds the JavaScript heap of a page, in MiB. Zero means 512.
	Heap int

	proxy string
}

// A Process is a browser that runs.
type Process struct {
	Conn *devtools.Conn
	// Proxy is the one name that has an address, that of this machine.
	Proxy string

	cmd     *exec.Cmd
	profile string
	netLog  bool
	said    *tail
	exited  chan struct{} // closed when the main process has ended and its pipes are read
	ended   sync.Once
	served  sync.WaitGroup
}

// dashes begin a switch of Chromium.
const dashes = "--"

// arguments returns those of Chromium.
func (c *Config) arguments(profile string) []string {
	switches := []string{
		"headless=new", "remote-debugging-pipe", "user-data-dir=" + profile, "no-first-run",
		"no-default-browser-check", "mute-audio", "hide-scrollbars", "disable-gpu",
		"disable-dev-shm-usage", "password-store=basic", "use-mock-keychain", "disable-crash-reporter",
		"disable-breakpad", "disable-extensions", "disable-default-apps", "disable-sync", "disable-translate",
		"disable-search-engine-choice-screen", "disable-background-timer-throttling",
		"disable-backgrounding-occluded-windows", "disable-renderer-backgrounding", "disable-hang-monitor",
		"metrics-recording-only", "no-pings",
		// Services of the browser's maker.
		"disable-background-networking", "disable-component-update", "disable-domain-reliability",
		"disable-client-side-phishing-detection", "safebrowsing-disable-auto-update", "disable-field-trial-config",
		"disable-features=MediaRouter,OptimizationHints,Translate,AutofillServerCommunication,DialMediaRouteProvider," +
			"InterestFeedContentSuggestions,CertificateTransparencyComponentUpdater,DnsOverHttps,AsyncDns," +
			"NetworkTimeServiceQuerying,PrivacySandboxSettings4,Prerender2,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
		// The one way to the network is the proxy of a view. Nothing but the proxy's name has an address, also no
		// address, and no page can guess that name. No other protocol goes around the proxy.
		"proxy-server=http://none.invalid:9", "proxy-bypass-list=<-loopback>",
		"host-resolver-rules=MAP " + c.proxy + " 127.0.0.1 , MAP * ~NOTFOUND", "disable-quic",
		"webrtc-ip-handling-policy=disable_non_proxied_udp", "force-webrtc-ip-handling-policy",
		"ignore-certificate-errors-spki-list=" + c.Pin,
		"user-agent=" + c.UserAgent, "lang=" + cmp.Or(c.Language, "en-US"),
		fmt.Sprintf("window-size=%d,%d", cmp.Or(c.Width, 1280), cmp.Or(c.Height, 800)),
		fmt.Sprintf("js-flags=%smax-old-space-size=%d", dashes, cmp.Or(c.Heap, 512)),
	}
	if c.NetLog != "" {
		switches = append(switches, "log-net-log="+c.NetLog, "net-log-capture-mode=Everything")
	}
	if c.NoSandbox {
		switches = append(switches, "no-sandbox")
	}
	args := make([]string, 0, len(switches)+1)
	for _, s := range switches {
		args = append(args, dashes+s)
	}
	return append(args, "about:blank")
}

// Start starts a browser and waits until it answers. The errors are ErrRoot, ErrSandbox, ErrStart, those of ctx and
// those of the machine.
func Start(ctx context.Context, c Config) (*Process, error) {
	if !c.NoSandbox && os.Geteuid() == 0 {
		return nil, ErrRoot
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp(c.Dir, "profile-")
	if err != nil {
		return nil, err
	}
	if profile, err = filepath.Abs(profile); err != nil {
		return nil, err
	}
	c.proxy = strings.ToLower(rand.Text()) + ".invalid"
	p := &Process{Proxy: c.proxy, profile: profile, netLog: c.NetLog != "", said: &tail{},
		exited: make(chan struct{})}
	if err := p.start(&c); err != nil {
		return nil, errors.Join(err, os.RemoveAll(profile))
	}
	within, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	_, err = cdp.Call(within, p.Conn.Session(""), browser.GetVersion, cdp.Empty{})
	if err == nil {
		return p, nil
	}
	p.End()
	switch said := p.said.String(); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case strings.Contains(said, "No usable sandbox"):
		return nil, ErrSandbox
	default:
		return nil, fmt.Errorf("%w: %s: %w: %.300q", ErrStart, c.Program.Path, err, lastLine(said))
	}
}

// lastLine returns the last line of what a program has said.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// start starts the main process.
func (p *Process) start(c *Config) error {
	childIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, childIn.Close(), in.Close())
	}
	p.cmd = exec.Command(c.Program.Path, c.arguments(p.profile)...)
	p.cmd.Dir, p.cmd.Env = p.profile, environment(p.profile, c.Environ)
	p.cmd.ExtraFiles = []*os.File{childIn, childOut} // descriptors 3 and 4
	p.cmd.Stderr, p.cmd.WaitDelay = p.said, time.Second
	dieWithCrawler(p.cmd)
	started := make(chan error)
	p.served.Go(func() {
		// The kernel ends the browser with the thread that has started it.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended does not matter
			close(p.exited)
		}
	})
	err = <-started
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		p.served.Wait()
		return errors.Join(fmt.Errorf("%w: %w", ErrStart, err), in.Close(), out.Close())
	}
	p.Conn = devtools.New(out, in)
	p.served.Go(func() { _ = p.Conn.Run() })
	return nil
}

// Exited is closed when the browser has ended, by itself or by End.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Memory returns the bytes of RAM that the browser's processes have for themselves, and how many processes there are.
// It is zero where the system does not tell.
func (p *Process) Memory() (bytes int64, processes int) {
	for _, m := range members(p.cmd.Process.Pid) {
		bytes += m.private
		processes++
	}
	return bytes, processes
}

// KillLargest ends the largest process of the browser that is not its main one: the page that has taken the memory.
// The browser then says which tab has crashed.
func (p *Process) KillLargest() {
	var largest member
	for _, m := range members(p.cmd.Process.Pid) {
		if m.pid != p.cmd.Process.Pid && m.private > largest.private {
			largest = m
		}
	}
	if largest.pid != 0 {
		kill(largest.pid)
	}
}

// End kills the browser with all its processes, removes its profile, and returns when nothing is left of it.
func (p *Process) End() {
	p.ended.Do(func() {
		if p.netLog {
			p.ask()
		}
		all := members(p.cmd.Process.Pid)
		_ = p.cmd.Process.Kill()
		_ = p.Conn.Close()
		p.served.Wait()
		for _, m := range all {
			if m.pid != p.cmd.Process.Pid && ofProfile(m.pid, p.profile) {
				kill(m.pid)
			}
		}
		removeAll(p.profile)
	})
}

// ask lets the browser end by itself, so that its log is whole.
func (p *Process) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	if _, err := cdp.Call(ctx, p.Conn.Session(""), browser.Close, cdp.Empty{}); err != nil {
		return // it will be killed
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
	}
}

// askWithin is how long a browser may take to end by itself.
const askWithin = 10 * time.Second

// removeAll removes a folder into which a process that ends may still write.
func removeAll(dir string) {
	for range 50 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Clear removes what an earlier run has left in dir, after a kill of the crawler.
func Clear(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "profile-*"))
	for _, name := range left {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}
