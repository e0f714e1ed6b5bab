// Package netns answers: how does a command run where only a test web exists?
//
// It starts this program a second time, in a network namespace and a mount namespace of its own (namespaces(7)). There
// the program opens the sockets of the web and passes them back. Later it executes the command in its own place:
//
//	Open   -> namespaces -> Enter: device lo up, listen -> sockets -> Namespace
//	Run    -> Enter: mount Files over those of the machine, drop capabilities, execute the command -> exit code
//
// The only device in the namespace is lo. So the command reaches the sockets that Open returns, and nothing else.
// Namespaces of networks and mounts do not divide anything else: the command can read and write the user's files, and
// connect to sockets in the file system. They keep a crawler away from the real web, but do not hold back a hostile
// program.
//
// The calling user needs no privilege where the system allows user namespaces. The command runs as that user. Where the
// caller may make the other namespaces without a user namespace, as root may, Open does without.
//
// The package works on Linux only. The caller of Open owns the Namespace, calls Run at most once, and calls Close.
package netns

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// ErrUnsupported means that the system cannot make a network namespace, or does not allow this user to.
var ErrUnsupported = errors.New("the system allows no network namespace")

// Config describes a Namespace.
type Config struct {
	// Enter is the command line with which this program, started again, calls Enter. Its first word is the name of the
	// program. Open appends "--addrs=" and the addresses, if there are any, then ports, a directory, "--" and the
	// command. Addresses and ports are separated by commas.
	Enter []string
	// Ports are TCP ports to listen on, at every address. Open listens at port 53 of 127.0.0.1 besides.
	Ports []int
	// Addrs are IPv4 addresses that the namespace has besides loopback.
	Addrs []netip.Addr
	// Command is the command to run and its arguments. Its first word is a path. Env is its environment.
	Command, Env []string
	// Stdin, Stdout and Stderr are those of the command.
	Stdin, Stdout, Stderr *os.File
}

// Sockets are the open sockets in a Namespace.
type Sockets struct {
	TCP    []net.Listener // of Config.Ports, in their order
	DNSTCP net.Listener
	DNSUDP net.PacketConn
}

// Close closes the sockets.
func (s *Sockets) Close() {
	for _, l := range s.TCP {
		l.Close()
	}
	if s.DNSTCP != nil {
		s.DNSTCP.Close()
	}
	if s.DNSUDP != nil {
		s.DNSUDP.Close()
	}
}

// resolverFiles are the files by which the programs of a machine look up names, with the content that leads them to a
// name server at 127.0.0.1. nsswitch is the machine's own nsswitch.conf, host its name.
func resolverFiles(nsswitch, host string) map[string]string {
	var b strings.Builder
	for line := range strings.Lines(nsswitch) {
		if !strings.HasPrefix(strings.TrimSpace(line), "hosts:") {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	b.WriteString("hosts: files dns\n")
	local := "127.0.0.1 localhost\n::1 localhost\n"
	if host != "" && host != "localhost" {
		local += "127.0.0.1 " + host + "\n"
	}
	return map[string]string{
		"/etc/resolv.conf":   "nameserver 127.0.0.1\n",
		"/etc/nsswitch.conf": b.String(),
		"/etc/hosts":         local,
	}
}

// certFiles are the files in which programs look for the authorities that they trust, on common systems.
var certFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, CentOS
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",                                 // OpenSSL, Alpine
}

// certVariables name, in the environment, a file with the authorities to trust.
var certVariables = []string{
	"SSL_CERT_FILE",       // OpenSSL, Go, Python's ssl
	"CURL_CA_BUNDLE",      // curl
	"REQUESTS_CA_BUNDLE",  // Python's requests
	"NODE_EXTRA_CA_CERTS", // Node.js
	"GIT_SSL_CAINFO",      // git
}

// Environ returns env for a command in a Namespace: the variables of common libraries name the file of the web's
// authority, and those that would lead around the web are removed.
func Environ(env []string, ca string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch strings.ToLower(name) {
		case "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", // lead to proxies
			"ssl_cert_dir", "res_options", "localdomain", "hostaliases": // lead to other authorities and names
			continue
		}
		if slices.Contains(certVariables, name) {
			continue
		}
		out = append(out, e)
	}
	for _, name := range certVariables {
		out = append(out, name+"="+ca)
	}
	return out
}
