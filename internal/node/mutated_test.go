package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	exchange "github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// A remote is a call of a service.
type remote struct {
	path     string
	harmless bool // the .proto file says so
	stream   bool
	request  proto.Message
}

func remotes(files ...protoreflect.FileDescriptor) (all []remote) {
	for _, file := range files {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				o, _ := m.Options().(*descriptorpb.MethodOptions)
				all = append(all, remote{"/" + string(s.FullName()) + "/" + string(m.Name()),
					o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS,
					m.IsStreamingClient() || m.IsStreamingServer(), dynamicpb.NewMessage(m.Input())})
			}
		}
	}
	return all
}

func (r remote) name() string { return r.path[strings.LastIndexByte(r.path, '/')+1:] }

// The setting of a crawl whose agents get mutated calls.
type setting struct {
	agents                          int
	partition, boundary             string
	replicas                        int
	coordinated, refetches, limited bool
}

var settings = []setting{
	{agents: 1, limited: true},
	{agents: 3, replicas: 2, refetches: true},
	{agents: 3, partition: membership.PartitionHash, boundary: membership.BoundaryContents, limited: true},
	{agents: 3, partition: membership.PartitionHash, replicas: 2},
	{agents: 3, partition: membership.PartitionTopic, boundary: membership.BoundaryContents},
	{agents: 3, partition: membership.PartitionTopic, boundary: membership.BoundaryURLs},
	{agents: 3, partition: membership.PartitionSites, coordinated: true, replicas: 2},
	{agents: 3, partition: membership.PartitionRing, limited: true},
}

// callBytes bounds what a call may allocate, at all agents together and beside the crawl. A byte of the request takes
// some more: an agent reads no more than 1 MB of it, but the test's own transports copy it several times.
const callBytes = 48 << 20

// TestMutatedCalls: no call of a reader, of an operator or of another agent, and no answer of another agent, ends an
// agent, makes a goroutine panic, allocates without bound, or leaves a directory with which the agent cannot start. The
// soak draws new calls, whole hours of them with SOAK_JOBS=calls.
func TestMutatedCalls(t *testing.T) {
	seed := testseed.New(t)
	for i := range testtier.Rounds(3, 2*len(settings)) {
		t.Run(fmt.Sprint(seed+uint64(i)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				newMutated(t, seed+uint64(i)).run(testtier.Rounds(50, 1500))
			})
		})
	}
}

// A mutated is a crawl with mutated calls.
type mutated struct {
	*mutator
	t       *testing.T
	setting setting
	loop    *simnet.Machine
	agents  []*mutatedAgent
	client  *http.Client // of the API
	h2      *http.Transport
	mu      sync.Mutex // guards the mutator while calls are heard, caller and lies
	caller  string     // the header of the last agent
	lies    bool       // the last agent's answers are mutated
	last    []string   // calls
	most    map[string]uint64
	log     *os.File
}

type mutatedAgent struct {
	name    string
	cfg     node.Config
	mem     *testdisk.Mem
	agent   *node.Agent
	stop    context.CancelFunc
	ended   chan struct{}
	err     error
	stopped crawl.Stop
	access  [2]node.APIAccess // of a reader, and of an operator
}

// A sharedSource is a source of random numbers for several goroutines.
type sharedSource struct {
	mu sync.Mutex
	of rand.Source
}

func (s *sharedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of.Uint64()
}

func newMutated(t *testing.T, seed uint64) *mutated {
	rng := rand.New(&sharedSource{of: rand.NewPCG(seed, 1)})
	m := &mutated{mutator: newMutator(rng), t: t, loop: newLoop(), most: map[string]uint64{}}
	m.setting = settings[seed%uint64(len(settings))]
	var err error
	if m.log, err = os.CreateTemp("", "mutated-*.txt"); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v; the calls are in %s", m.setting, m.log.Name())
	m.client = &http.Client{Transport: &http.Transport{DialContext: m.loop.Dial}}
	m.h2 = &http.Transport{DialContext: m.loop.Dial, Protocols: new(http.Protocols)}
	m.h2.Protocols.SetUnencryptedHTTP2(true)
	return m
}

// heard remembers a call between agents.
func (m *mutated) heard(path, caller string, body []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.HasPrefix(caller, fmt.Sprintf("a%d ", m.setting.agents)) {
		m.caller = caller
	}
	if m.setting.agents > 1 {
		m.learn(path, body)
	}
}

// answered mutates some answers of the last agent: the others have to judge them, too.
func (m *mutated) answered(addr, path string, body []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.lies || addr != m.agents[len(m.agents)-1].cfg.Cluster.Listen || !m.chance(4) {
		return body
	}
	method := exchange.File_exchange_proto.Services().Get(0).Methods().ByName(protoreflect.Name(
		path[strings.LastIndexByte(path, '/')+1:]))
	var lie []byte
	if method == nil || m.chance(2) {
		lie = m.wire(body)
	} else if lie = m.message(path+" answer", dynamicpb.NewMessage(method.Output())); m.chance(8) {
		lie = m.damage(lie)
	}
	if len(lie) > lieMost {
		return body
	}
	fmt.Fprintf(m.log, "%s answer of %s to %s, %d bytes %.200x\n", time.Now().Format("15:04:05.000"), addr, path,
		len(lie), lie)
	return lie
}

// lieMost bounds a mutated answer, because the test's own copies count as memory of the agents. It is a little more
// than an answer may have.
const lieMost = 1200 << 10

// endless serves a web without end to one agent: each page links to others of six hosts. A page takes 200 ms, so that
// the crawl stays small after a call that takes away the delay: what the crawl itself allocates counts as the call's.
func endless(_ context.Context, _, addr string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		in := bufio.NewReader(there)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			time.Sleep(200 * time.Millisecond)
			if r.URL.Path == "/robots.txt" {
				fmt.Fprint(there, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			h := rand.New(rand.NewPCG(uint64(len(r.URL.Path)), uint64(len(r.Host))))
			var b strings.Builder
			fmt.Fprintf(&b, "<html><title>football match %s</title><p>%s", r.URL.Path,
				strings.Repeat("the team won the match in the last minute ", 5))
			for range 6 {
				fmt.Fprintf(&b, "<a href=http://h%d.example%.20s%d>x</a>", h.IntN(6), r.URL.Path, h.IntN(1000))
			}
			fmt.Fprintf(there, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s",
				b.Len(), b.String())
		}
	}()
	return here, nil
}

// config returns the configuration of an agent.
func (m *mutated) config(n int, mem *testdisk.Mem, hosts string) node.Config {
	cfg := node.Config{Dir: "/crawl", Seeds: []string{"http://h1.example/", "http://h2.example/1"},
		Contact: "ops@example.org", FS: mem}
	cfg.DNS.HostsFile, cfg.DNS.Servers = hosts, []string{"192.0.2.53"}
	cfg.DNS.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") }
	cfg.Fetch.AllowPrivate, cfg.Fetch.Dial = true, endless
	cfg.Scope.Scope = scope.Any
	cfg.Scope.Include = []string{"."}
	cfg.MemoryBytes = node.LeastMemory
	cfg.Frontier.HostDelay = time.Second
	cfg.Crawl.DrainTimeout = 2 * time.Second
	cfg.Archive.MaxBytes = 64 << 10
	if m.setting.limited {
		cfg.Crawl.PageLimit = 1 << 20
		cfg.Rate, _ = rate.Parse("100/s")
	}
	if m.setting.agents == 1 {
		return cfg
	}
	s := m.setting
	cfg.Cluster = &membership.Config{Name: fmt.Sprintf("a%d", n), Capacity: 1,
		Listen: fmt.Sprintf("127.0.0.1:%d", 7470+n), Join: []string{"127.0.0.1:7471"}, Agents: s.agents, Recovery: 2,
		Partition: s.partition, Boundary: s.boundary, Replicas: s.replicas,
		Network: &tap{m.loop, m.heard, m.answered}}
	if s.refetches {
		cfg.Cluster.OnLoss = membership.LossRefetch
	}
	if s.coordinated {
		cfg.Cluster.Coordinators = []string{coordinatorAddr}
	}
	return cfg
}

const coordinatorAddr = "127.0.0.1:7490"

// runCoordinator runs a coordinator without others. stop ends it and returns its error.
func runCoordinator(t *testing.T, net rpc.Network) (stop func() error) {
	t.Helper()
	c := must.Get(coordination.Open(coordination.Config{Dir: "/c", FS: testdisk.NewMem(), Listen: coordinatorAddr,
		Network: net, Unchecked: true}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() error { cancel(); return errors.Join(<-ended, c.Close()) }
}

// start starts an agent and its API.
func (m *mutated) start(a *mutatedAgent) {
	m.t.Helper()
	var err error
	if a.agent, err = node.Open(a.cfg); err != nil {
		m.fatal("%s: open: %v", a.name, err)
	}
	ln, packets, err := m.loop.Listen("127.0.0.1:748" + a.name[1:])
	if err == nil {
		err = errors.Join(packets.Close(), a.agent.Serve(ln, nil))
	}
	for i, name := range []string{crawldir.APIReaderFile, crawldir.APIFile} {
		if err == nil {
			err = json.Unmarshal([]byte(read(m.t, a.mem, name)), &a.access[i])
		}
	}
	if err != nil {
		m.fatal("%s: serve: %v", a.name, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	a.stop, a.ended, a.err = stop, make(chan struct{}), nil
	go func() {
		defer close(a.ended)
		res, err := a.agent.Run(ctx)
		a.stopped, a.err = res.Stop, errors.Join(err, a.agent.Close())
	}()
}

func (m *mutated) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf(format+"\nthe last calls:\n%s", append(args, strings.Join(m.last, "\n"))...)
}

func (a *mutatedAgent) over() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// run makes calls.
func (m *mutated) run(calls int) {
	if m.setting.coordinated {
		stop := runCoordinator(m.t, m.loop)
		defer func() {
			if err := stop(); err != nil {
				m.t.Errorf("the coordinator: %v", err)
			}
		}()
	}
	hosts := filepath.Join(m.t.TempDir(), "hosts")
	text := ""
	for i := range 6 {
		text += fmt.Sprintf("192.0.2.%d h%d.example\n", i+1, i)
	}
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
	for i := range m.setting.agents {
		a := &mutatedAgent{name: fmt.Sprintf("a%d", i+1), mem: testdisk.NewMem()}
		a.cfg = m.config(i+1, a.mem, hosts)
		m.agents = append(m.agents, a)
		m.start(a)
	}
	time.Sleep(5 * time.Second)
	m.honest()
	operator, members := remotes(pb.File_operator_proto), remotes(exchange.File_exchange_proto)
	if m.setting.coordinated {
		members = append(members, remotes(exchange.File_coordination_proto)...)
	}
	m.mu.Lock()
	m.lies = true
	m.mu.Unlock()
	n := 0
	for ; n < calls && !slices.ContainsFunc(m.agents, (*mutatedAgent).over); n++ {
		if m.setting.agents > 1 && m.chance(2) {
			r := pick(m.mutator, members)
			if m.chance(3) { // it has many calls
				r = members[slices.IndexFunc(members, func(r remote) bool { return r.name() == "Operate" })]
			}
			m.member(r)
		} else {
			m.api(pick(m.mutator, operator), m.rng.IntN(2))
		}
		if m.chance(3) {
			time.Sleep(time.Duration(m.rng.IntN(2000)) * time.Millisecond)
		}
	}
	m.judge()
	for _, a := range m.agents {
		if a.over() {
			m.t.Logf("%s ended: %q, %v", a.name, a.stopped, a.err)
		}
	}
	m.t.Logf("%d calls", n)
	if last := m.agents[len(m.agents)-1]; len(m.agents) > 1 {
		last.stop() // the others take over what it has said of its hosts
		<-last.ended
		time.Sleep(time.Minute)
		m.judge()
	}
	for _, a := range m.agents {
		a.stop()
	}
	for _, a := range m.agents {
		<-a.ended
	}
	m.mu.Lock()
	m.lies = false
	m.mu.Unlock()
	m.judge()
	for _, a := range m.agents { // each directory is as after any other run
		a.cfg.Resume = true
		if a.cfg.Cluster != nil {
			a.cfg.Cluster.Agents = 0
		}
		m.start(a)
	}
	time.Sleep(5 * time.Second)
	for _, a := range m.agents {
		a.stop()
	}
	for _, a := range m.agents {
		<-a.ended
	}
	m.judge()
	m.client.CloseIdleConnections()
	m.h2.CloseIdleConnections()
	if !m.t.Failed() {
		m.log.Close()
		os.Remove(m.log.Name())
	}
	names := make([]string, 0, len(m.most))
	for name, most := range m.most {
		names = append(names, fmt.Sprintf("%8d KiB %s", most>>10, name))
	}
	slices.Sort(names)
	slices.Reverse(names)
	m.t.Logf("allocated most:\n%s", strings.Join(names[:min(len(names), 10)], "\n"))
	time.Sleep(5 * time.Minute) // the last timers of libraries
}

// judge fails if an agent has failed. The last one may be told to end by what it has said itself.
func (m *mutated) judge() {
	m.t.Helper()
	for i, a := range m.agents {
		if i < max(1, len(m.agents)-1) && a.over() && a.err != nil {
			m.fatal("%s ended: %v", a.name, a.err)
		}
		for line := range strings.Lines(read(m.t, a.mem, "logs/events.jsonl")) {
			if strings.Contains(line, "panic") {
				m.fatal("%s: %s", a.name, line)
			}
		}
	}
}

// honest makes calls that operators make, so that there are applications, tokens and names.
func (m *mutated) honest() {
	for _, c := range []struct {
		name string
		q    proto.Message
	}{
		{"SetApplication", &pb.SetApplicationRequest{Name: "news", Pages: proto.Bool(true)}},
		{"SetApplication", &pb.SetApplicationRequest{Name: "shop", Share: proto.Float64(2)}},
		{"Feed", &pb.FeedRequest{Application: "news", Urls: []*pb.FeedURL{{Url: "http://h1.example/fed"}}}},
		{"Captures", &pb.CapturesRequest{Url: "http://h1.example/", Match: pb.CaptureMatch_CAPTURE_MATCH_HOST}},
		{"Queue", &pb.QueueRequest{Limit: 5}}, {"Hosts", &pb.HostsRequest{Limit: 2}},
		{"ExcludePreview", &pb.ExcludePreviewRequest{Pattern: "3"}},
		{"Pages", &pb.PagesRequest{Application: "news", Body: true, Wait: 5}},
		{"Give", &pb.GiveRequest{Verb: "block", About: "h5.example"}},
		{"Give", &pb.GiveRequest{Verb: "exclude", About: "never",
			Also: []*pb.GiveRequest{{Verb: "scope", Words: "depth 9"}}}},
		{"AddSeeds", &pb.AddSeedsRequest{Urls: []string{"http://h3.example/seed"}}}, {"Orders", &pb.OrdersRequest{}},
	} {
		b, err := proto.Marshal(c.q)
		if err != nil {
			m.t.Fatal(err)
		}
		path := "/orbweaver.operator.v1.Operator/" + c.name
		if status := m.post(0, path, b, false, m.agents[0].access[1]); status != http.StatusOK {
			m.t.Errorf("%s: status %d", c.name, status)
		}
	}
}

// api makes a call as a reader (0) or as an operator.
func (m *mutated) api(r remote, role int) {
	if r.name() == "Stop" || r.name() == "Leave" {
		if role == 1 {
			return // they end agents
		}
	}
	m.mu.Lock()
	b := m.message(r.path, r.request)
	m.mu.Unlock()
	i := m.rng.IntN(len(m.agents))
	status := m.post(i, r.path, b, r.stream, m.agents[i].access[role])
	if role == 0 && !r.harmless && status != http.StatusForbidden && status != 0 { // 0: it has ended
		m.fatal("%s as a reader: status %d", r.path, status)
	}
	if status == http.StatusOK && !r.stream {
		m.mu.Lock()
		m.learn(r.path, b)
		m.mu.Unlock()
	}
}

// post makes a call of the API.
func (m *mutated) post(i int, path string, b []byte, stream bool, as node.APIAccess) int {
	kind := "application/proto"
	if stream {
		kind = "application/connect+proto"
		b = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 95*time.Second)
	defer cancel()
	if stream {
		ctx, cancel = context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+as.Addr+path, bytes.NewReader(b))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+as.Token)
	req.Header.Set("Content-Type", kind)
	return m.do(m.client.Transport, req, m.agents[i].name, b)
}

// member makes a call as the last agent.
func (m *mutated) member(r remote) {
	m.mu.Lock()
	b, caller := m.message(r.path, r.request), m.caller
	m.mu.Unlock()
	if caller == "" {
		m.t.Fatal("the last agent has called no other")
	}
	if r.name() == "Operate" {
		if q := new(exchange.OperateRequest); proto.Unmarshal(b, q) == nil &&
			slices.Contains([]string{"Stop", "Leave"}, q.Method) {
			return
		}
	}
	if r.name() == "Finish" || r.name() == "Forget" {
		return // they end the crawl, and an agent
	}
	a := m.agents[m.rng.IntN(len(m.agents)-1)]
	addr := a.cfg.Cluster.Listen
	if strings.Contains(r.path, "Coordination") {
		addr = coordinatorAddr
	}
	kind := "application/proto"
	if r.stream {
		kind = "application/connect+proto"
		b = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 95*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+r.path, bytes.NewReader(b))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set(callerHeader, caller)
	m.do(m.h2, req, a.name, b)
}

// allocated returns the bytes that this process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// do makes a request, and judges what it costs. What agents do at the same time counts, too: they may see other agents
// come and go. So a call that costs too much is repeated, unless nothing else can cost as much.
func (m *mutated) do(tr http.RoundTripper, req *http.Request, to string, b []byte) (status int) {
	for range 3 {
		took, cost := time.Duration(0), uint64(0)
		status, took, cost = m.try(tr, req, to, b)
		most := callBytes + 6*uint64(len(b)) + uint64(took/time.Second)<<20
		if cost <= most || status == 0 && cost <= 4*most { // without an answer, it cannot be repeated
			return status
		}
		if cost > 4*most {
			break
		}
		req.Body = io.NopCloser(bytes.NewReader(b))
	}
	m.t.Errorf("%s costs too much", m.last[len(m.last)-1])
	return status
}

// try makes a request once. status is 0 without an answer.
func (m *mutated) try(tr http.RoundTripper, req *http.Request, to string, b []byte) (status int, took time.Duration,
	cost uint64) {
	line := fmt.Sprintf("%s %s %s %d bytes %.200x", time.Now().Format("15:04:05.000"), to, req.URL.Path, len(b), b)
	if m.last = append(m.last, line); len(m.last) > 10 {
		m.last = m.last[1:]
	}
	fmt.Fprintf(m.log, "%s %x\n", line, b[min(len(b), 200):])
	before, began := allocated(), time.Now()
	res, err := tr.RoundTrip(req)
	var text []byte
	if err == nil {
		status = res.StatusCode
		text, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	took, cost = time.Since(began), allocated()-before
	fmt.Fprintf(m.log, "  -> %d %v %s, %d KiB, %.200q\n", status, err, took, cost>>10, text)
	name := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
	m.most[name] = max(m.most[name], cost)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		time.Sleep(10 * time.Second) // an agent that ends has closed its ports already
		if !slices.ContainsFunc(m.agents, (*mutatedAgent).over) {
			m.fatal("%s: %v", line, err)
		}
	}
	if err == nil && status == http.StatusOK {
		m.hear(name, text)
	}
	return status, took, cost
}

// hear remembers the values of an answer.
func (m *mutated) hear(name string, text []byte) {
	for _, file := range []protoreflect.FileDescriptor{pb.File_operator_proto, exchange.File_exchange_proto} {
		method := file.Services().Get(0).Methods().ByName(protoreflect.Name(name))
		if method == nil {
			continue
		}
		if msg := dynamicpb.NewMessage(method.Output()); proto.Unmarshal(text, msg) == nil {
			m.mu.Lock()
			m.look(msg)
			m.mu.Unlock()
		}
	}
}
