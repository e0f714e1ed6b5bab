package lab

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// A Node is a part of the processor time. The levels below the root are: a package of ours, the
// kind of work, the function.
type Node struct {
	Name string
	Time time.Duration // processor time, children included
	Kids []*Node       // the largest first
}

func (n *Node) kid(name string) *Node {
	for _, k := range n.Kids {
		if k.Name == name {
			return k
		}
	}
	k := &Node{Name: name}
	n.Kids = append(n.Kids, k)
	return k
}

// ReadProfile reads a processor profile into a tree. Its first level are the packages of ours.
func ReadProfile(name string) (*Node, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	value := -1
	for i, t := range p.SampleType {
		if t.Type == "cpu" && t.Unit == "nanoseconds" {
			value = i
		}
	}
	if value < 0 {
		return nil, fmt.Errorf("profile %s: not a profile of processor time", name)
	}
	root := &Node{Name: "all"}
	for _, s := range p.Sample {
		d := time.Duration(s.Value[value])
		root.Time += d
		n := root
		for _, part := range place(frames(s)) {
			n = n.kid(part)
			n.Time += d
		}
	}
	root.sort()
	return root, nil
}

func (n *Node) sort() {
	slices.SortFunc(n.Kids, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), strings.Compare(a.Name, b.Name))
	})
	for _, k := range n.Kids {
		k.sort()
	}
}

// A frame is a function on a stack.
type frame struct {
	name string // import path and name
	file string // base name of its source file
}

// frames returns the frames of a sample, the innermost first.
func frames(s *profile.Sample) []frame {
	var fs []frame
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				fs = append(fs, frame{line.Function.Name, path.Base(line.Function.Filename)})
			}
		}
	}
	return fs
}

const ours = "github.com/orbweaver/orbweaver/"

// owner returns the package of ours that a frame belongs to, with these exceptions. For a
// frame of another module it is "".
func (f frame) owner() string {
	rest, ok := strings.CutPrefix(f.name, ours)
	if !ok {
		return ""
	}
	pkg := rest
	if i := strings.IndexByte(rest, '.'); i >= 0 {
		pkg = rest[:i]
	}
	pkg = path.Base(pkg)
	switch {
	case pkg == "disk":
		return "" // counts for the caller
	case pkg == "fetch" && (f.file == "decode.go" || f.file == "gunzip.go"):
		return "decode"
	case pkg == "crawl":
		return "dispatcher"
	}
	return pkg
}

// works names the kinds of work of functions that are not ours. workOf looks at the frames
// between the innermost frame and the first frame of ours. The innermost frame with a matching
// prefix decides, and for this frame the first prefix that matches.
var works = []struct{ prefix, name string }{
	{"runtime.gcAssist", "collector"}, {"runtime.gcDrain", "collector"}, {"runtime.gcBgMark", "collector"},
	{"runtime.gcStart", "collector"},
	{"runtime.bgsweep", "collector"}, {"runtime.sweepone", "collector"}, {"runtime.bgscavenge", "collector"},
	{"runtime.gcMark", "collector"}, {"runtime.gcWriteBarrier", "collector"},
	{"runtime.wbBuf", "collector"}, {"runtime.gcFlush", "collector"},
	{"runtime.mallocgc", "allocation"}, {"runtime.newobject", "allocation"}, {"runtime.makeslice", "allocation"},
	{"runtime.growslice", "allocation"},
	{"runtime.morestack", "stacks"}, {"runtime.newstack", "stacks"},
	{"runtime.schedule", "scheduler"}, {"runtime.findRunnable", "scheduler"}, {"runtime.park_m", "scheduler"},
	{"runtime.mcall", "scheduler"}, {"runtime.goready", "scheduler"},
	{"runtime.ready", "scheduler"}, {"runtime.wakep", "scheduler"}, {"runtime.gosched", "scheduler"},
	{"runtime.goschedImpl", "scheduler"}, {"runtime.mstart", "scheduler"},
	{"runtime.sysmon", "scheduler"}, {"runtime.netpoll", "scheduler"}, {"runtime.exitsyscall", "scheduler"},
	{"runtime.entersyscall", "scheduler"}, {"runtime.resumespinning", "scheduler"},
	{"runtime.chansend", "channels"}, {"runtime.chanrecv", "channels"}, {"runtime.selectgo", "channels"},
	{"runtime.selectnb", "channels"},
	{"sync.", "locks"}, {"internal/sync.", "locks"}, {"runtime.lock", "locks"}, {"runtime.unlock", "locks"},
	{"runtime.sem", "locks"},
	{"runtime.mapaccess", "maps"}, {"runtime.mapassign", "maps"}, {"runtime.mapdelete", "maps"},
	{"internal/runtime/maps.", "maps"}, {"runtime.memhash", "maps"},
	{"runtime.memmove", "copying"}, {"runtime.memclr", "clearing"}, {"runtime.(*timers)", "timers"},
	{"runtime.(*timer)", "timers"}, {"time.", "timers"},
	{"crypto/sha1.", "SHA-1"}, {"hash/crc32.", "CRC-32"}, {"github.com/klauspost/crc32.", "CRC-32"},
	{"compress/flate.(*decompressor)", "inflate"}, {"github.com/klauspost/compress/flate.(*decompressor)", "inflate"},
	{"github.com/klauspost/compress/flate.(*dictDecoder)", "inflate"},
	{"github.com/klauspost/compress/flate.(*huffmanDecoder)", "inflate"},
	{"github.com/klauspost/compress/flate.fixedHuffmanDecoder", "inflate"},
	{"github.com/klauspost/compress/gzip.(*Reader)", "inflate"},
	{"github.com/klauspost/compress/flate.", "deflate"}, {"compress/flate.", "deflate"},
	{"github.com/andybalholm/brotli.", "brotli"}, {"github.com/klauspost/compress/zstd.", "zstd"},
	{"crypto/tls.", "TLS"}, {"crypto/", "TLS"}, {"github.com/miekg/dns.", "DNS messages"},
	{"encoding/json.", "JSON"}, {"golang.org/x/text/", "charsets"}, {"golang.org/x/net/idna", "IDNA"},
}

// calls names system calls by the function of package syscall, or of ours, that makes them.
var calls = []struct{ part, name string }{
	{"Pwritev", "write"}, {"Writev", "write"}, {"writev", "write"}, {"Pwrite", "write"}, {"pwrite", "write"},
	{"Write", "write"}, {"write", "write"},
	{"Pread", "read"}, {"pread", "read"}, {"Read", "read"}, {"read", "read"}, {"recvfrom", "read"},
	{"Recvfrom", "read"}, {"recvmsg", "read"}, {"sendto", "write"}, {"Sendto", "write"}, {"Sendmsg", "write"},
	{"connect", "connect"}, {"Connect", "connect"}, {"Close", "close"}, {"close", "close"}, {"socket", "socket"},
	{"Socket", "socket"},
	{"setsockopt", "setsockopt"}, {"Setsockopt", "setsockopt"}, {"Fsync", "fsync"}, {"Fdatasync", "fsync"},
	{"fsync", "fsync"},
	{"EpollWait", "epoll"}, {"EpollCtl", "epoll"}, {"Epoll", "epoll"}, {"epoll", "epoll"}, {"futex", "futex"},
	{"usleep", "sleep"}, {"Open", "open"}, {"open", "open"},
	{"bind", "bind"}, {"Bind", "bind"}, {"getsockname", "getsockname"}, {"Getsockname", "getsockname"},
	{"getsockopt", "getsockopt"}, {"Getsockopt", "getsockopt"}, {"Poll", "poll"}, {"poll", "poll"},
}

// isCall reports whether a frame enters the kernel.
func isCall(name string) bool {
	return strings.HasPrefix(name, "internal/runtime/syscall") || name == "runtime.futex" || name == "runtime.usleep" ||
		name == "runtime.epollwait" ||
		name == "runtime.madvise" || name == "runtime.sysUnused" || name == "syscall.rawVforkSyscall" ||
		name == "runtime.write1" || name == "runtime.vdsoCall"
}

// place returns the path of a stack in the tree: package, work, function.
func place(stack []frame) []string {
	pkg, at := "", len(stack)
	for i, f := range stack {
		if r := f.owner(); r != "" {
			pkg, at = r, i
			break
		}
	}
	inner := stack[:at]
	work := workOf(inner)
	switch {
	case work == "collector":
		who := "in the background"
		if pkg != "" {
			who = "in turn for " + pkg
		}
		return []string{"runtime", "collector", who}
	case pkg == "" && len(stack) > 0:
		if work == "" {
			work = short(stack[0].name)
		}
		if strings.HasPrefix(stack[len(stack)-1].name, "crypto/tls.") {
			return []string{"tls", work}
		}
		return []string{"runtime", work}
	case pkg == "":
		return []string{"runtime", "unknown"}
	}
	fn := short(stack[at].name)
	if pkg == "fetch" && slices.ContainsFunc(inner,
		func(f frame) bool { return strings.HasPrefix(f.name, "crypto/tls.") }) {
		if work == "TLS" {
			work = tlsWork(inner)
		}
		return []string{"tls", work, fn}
	}
	if work == "" {
		return []string{pkg, "own code", fn}
	}
	return []string{pkg, work, fn}
}

// tlsWork distinguishes TLS handshakes from records.
func tlsWork(inner []frame) string {
	for _, f := range inner {
		if strings.Contains(f.name, "andshake") {
			return "handshake"
		}
	}
	return "records"
}

// workOf returns the kind of work of the frames between the innermost frame and ours. It is ""
// if they do the work of the function of ours that called them.
func workOf(inner []frame) string {
	for i, f := range inner {
		if isCall(f.name) {
			for _, g := range inner[i:] {
				base := g.name[strings.LastIndexByte(g.name, '/')+1:]
				for _, c := range calls {
					if strings.Contains(base, c.part) && !strings.Contains(base, "Syscall") {
						if c.name == "futex" || c.name == "epoll" || c.name == "sleep" {
							return "scheduler"
						}
						return "system call: " + c.name
					}
				}
			}
			return "system call: other"
		}
	}
	for _, f := range inner {
		for _, w := range works {
			if strings.HasPrefix(f.name, w.prefix) {
				return w.name
			}
		}
	}
	if len(inner) > 0 {
		if pkg := packageOf(inner[len(inner)-1].name); pkg != "" {
			return "package " + pkg
		}
	}
	return ""
}

// packageOf returns the name of a function's package. It is "" for functions of the runtime,
// which code does not call by name.
func packageOf(name string) string {
	name = plain(name)
	dir, base := path.Split(name)
	pkg, _, ok := strings.Cut(base, ".")
	if !ok || pkg == "runtime" || strings.HasPrefix(dir, "internal/") {
		return ""
	}
	if len(pkg) > 1 && pkg[0] == 'v' && strings.Trim(pkg[1:], "0123456789") == "" {
		return path.Base(dir)
	}
	return pkg
}

// plain returns a function's name without type arguments, which contain import paths.
func plain(name string) string {
	from, to := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if from < 0 || to < from {
		return name
	}
	return name[:from] + name[to+1:]
}

// short returns a function's name without its import path and type arguments.
func short(name string) string {
	name = plain(name)
	return name[strings.LastIndexByte(name, '/')+1:]
}

// Flame returns the tree as indented text, with depth levels: the time per page of a number of
// pages, the share, and a bar as long as the share. Nodes that take less than the share least
// of the whole are added up in the line "other" of their parent.
func (n *Node) Flame(pages int64, depth int, least float64) string {
	var lines [][4]string
	add := func(level int, name string, d time.Duration) {
		share := float64(d) / float64(max(n.Time, 1))
		bar := ""
		if level == 0 {
			bar = strings.Repeat("█", int(share*40+0.5))
		} else if level == 1 {
			bar = strings.Repeat("▒", int(share*40+0.5))
		} else {
			bar = strings.Repeat("·", int(share*40+0.5))
		}
		lines = append(lines, [4]string{strings.Repeat("  ", level) + name,
			fmt.Sprintf("%.1f", float64(d)/1e3/float64(max(pages, 1))), fmt.Sprintf("%.1f %%", 100*share), bar})
	}
	var walk func(k *Node, level int)
	walk = func(k *Node, level int) {
		other, hidden := time.Duration(0), 0
		for _, c := range k.Kids {
			if float64(c.Time) < least*float64(n.Time) {
				other += c.Time
				hidden++
				continue
			}
			add(level, c.Name, c.Time)
			if level+1 < depth && (len(c.Kids) > 1 || level == 0) {
				walk(c, level+1)
			}
		}
		if hidden > 0 && hidden < len(k.Kids) && float64(other) >= least*float64(n.Time) {
			add(level, "other", other)
		}
	}
	walk(n, 0)
	lines = append([][4]string{{"", "µs/page", "share", ""}}, lines...)
	lines = append(lines, [4]string{"all", fmt.Sprintf("%.1f", float64(n.Time)/1e3/float64(max(pages, 1))), "100.0 %",
		""})
	rows := make([][]string, len(lines))
	for i := range lines {
		rows[i] = lines[i][:]
	}
	wide := widths(rows)
	var b strings.Builder
	for _, l := range rows {
		b.WriteString(strings.TrimRight(pad(l[0], wide[0], false)+"  "+pad(l[1], wide[1], true)+"  "+
			pad(l[2], wide[2], true)+"  "+l[3], " ") + "\n")
	}
	return b.String()
}
