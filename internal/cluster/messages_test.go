package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// linksTo returns the encodings of links to URLs.
func linksTo(urls ...string) (enc []byte) {
	for _, u := range urls {
		l := link.Link{URL: weburl.MustParse(u), Via: "http://via.example/", Hops: "L", Seed: "via.example"}
		enc = l.AppendTo(enc)
	}
	return enc
}

const urlA, urlB = "http://a.example/", "http://b.example/"

var (
	aPush   = &pb.PushRequest{Hops: 2, Count: 2, Links: linksTo("http://a.example/1", "http://b.example/2?q")}
	aClaim  = &pb.ClaimRequest{View: 1<<63 + 5, Hosts: []string{"a.example", "xn--bcher-kva.example", "[2001:db8::1]"}}
	aHand   = &pb.HandRequest{Count: 3, Records: []byte("of hosts")}
	aRecall = &pb.RecallRequest{Count: 2, Links: linksTo(urlA, urlB), Accept: true}

	anAnswer = &pb.RecallResponse{Answers: []*pb.RecallAnswer{{Verdict: recallLater},
		{Verdict: recallKnown, Link: linksTo(urlB), State: []byte("state")}}}
)

// TestHostileRequests: requests beyond their bounds are refused, and those at their bounds are not.
func TestHostileRequests(t *testing.T) {
	hosts := func(n int, host string) *pb.ClaimRequest {
		return &pb.ClaimRequest{Hosts: slices.Repeat([]string{host}, n)}
	}
	one := linksTo(urlA)
	full := slices.Repeat(one, rpc.MaxData/len(one))
	many := func(n int) []byte { return slices.Repeat(one, n) }
	for want, qs := range map[error][]proto.Message{
		nil: {aPush, &pb.PushRequest{Count: uint32(len(full) / len(one)), Links: full},
			&pb.PushRequest{Count: 1, Hops: MaxHops, Links: one},
			aClaim, hosts(rpc.MaxHosts, "a.example"),
			aHand, &pb.HandRequest{Count: rpc.MaxData, Records: make([]byte, rpc.MaxData)},
			aRecall, &pb.RecallRequest{Count: maxRecall, Links: many(maxRecall)}},
		rpc.ErrMalformed: {&pb.PushRequest{}, &pb.PushRequest{Links: one}, &pb.PushRequest{Count: 2, Links: one},
			&pb.PushRequest{Count: 1, Links: many(2)},
			&pb.PushRequest{Count: 1, Links: []byte("\x00\x07file://\x00\x00\x00")},
			&pb.PushRequest{Count: 1, Links: link.Link{}.AppendTo(nil)},
			&pb.PushRequest{Count: 1, Links: one[:len(one)-1]},
			&pb.PushRequest{Count: 1, Hops: MaxHops + 1, Links: one},
			&pb.PushRequest{Count: rpc.MaxData + 1, Links: one},
			hosts(0, ""), hosts(1, ""), hosts(1, "a.example/../"), hosts(1, "A.example"),
			hosts(1, strings.Repeat("a", 300)), hosts(rpc.MaxHosts+1, "a.example"),
			&pb.HandRequest{}, &pb.HandRequest{Count: 5}, &pb.HandRequest{Records: one},
			&pb.HandRequest{Count: 2, Records: []byte("x")},
			&pb.RecallRequest{}, &pb.RecallRequest{Count: 2, Links: one},
			&pb.RecallRequest{Count: maxRecall + 1, Links: many(maxRecall + 1)}},
		rpc.ErrTooLarge: {&pb.PushRequest{Count: 1, Links: make([]byte, rpc.MaxData+1)},
			&pb.HandRequest{Count: 1, Records: make([]byte, rpc.MaxData+1)},
			&pb.RecallRequest{Count: 1, Links: make([]byte, rpc.MaxData+1)}},
	} {
		for _, q := range qs {
			if err := checkAny(q); !errors.Is(err, want) {
				t.Errorf("%T %.80v: %v, want %v", q, q, err, want)
			}
		}
	}
}

// checkAny checks a request.
func checkAny(q proto.Message) error {
	switch q := q.(type) {
	case *pb.PushRequest:
		return PushCall.Request(q)
	case *pb.ClaimRequest:
		return ClaimCall.Request(q)
	case *pb.HandRequest:
		return HandCall.Request(q)
	case *pb.RecallRequest:
		return RecallCall.Request(q)
	}
	panic(q)
}

// TestHostileAnswers: there is one answer for each question, and a state is of the URL that was asked for.
func TestHostileAnswers(t *testing.T) {
	for verdicts, ok := range map[string]bool{"\x01\x02\x03": true, "\x04\x04\x04": true, "": false, "\x01\x02": false,
		"\x01\x02\x03\x04": false, "\x00\x01\x02": false, "\x01\x02\x05": false} {
		err := ClaimCall.Response(aClaim, &pb.ClaimResponse{Verdicts: []byte(verdicts)})
		if ok != (err == nil) || !ok && !errors.Is(err, rpc.ErrMalformed) {
			t.Errorf("verdicts %q: %v", verdicts, err)
		}
	}
	known := func(enc []byte, octets int) *pb.RecallAnswer {
		return &pb.RecallAnswer{Verdict: recallKnown, Link: enc, State: make([]byte, octets)}
	}
	one := linksTo(urlA)
	q := &pb.RecallRequest{Count: 1, Links: one}
	for want, as := range map[error][]*pb.RecallAnswer{
		nil: {known(one, 1), known(one, visit.MaxState), {Verdict: recallLater}, {Verdict: recallNone},
			{Verdict: recallBlocked}},
		rpc.ErrMalformed: {nil, {}, {Verdict: recallBlocked + 1}, {Verdict: 1 << 31}, known(one, 0),
			known(one, visit.MaxState+1), known(nil, 1), known(linksTo(urlB), 1), known(linksTo(urlA, urlA), 1),
			known(one[:len(one)-1], 1), {Verdict: recallNone, Link: one}, {Verdict: recallLater, State: one}},
	} {
		for _, a := range as {
			r := &pb.RecallResponse{Answers: []*pb.RecallAnswer{a}}
			if err := RecallCall.Response(q, r); !errors.Is(err, want) {
				t.Errorf("%.80v: %v, want %v", a, err, want)
			}
		}
	}
	for _, n := range []int{0, 1, 3} {
		r := &pb.RecallResponse{Answers: slices.Repeat([]*pb.RecallAnswer{{Verdict: recallNone}}, n)}
		if err := RecallCall.Response(aRecall, r); !errors.Is(err, rpc.ErrMalformed) {
			t.Errorf("%d answers to two questions: %v", n, err)
		}
	}
}

// FuzzRequests: any request is refused, or it is within its bounds.
func FuzzRequests(f *testing.F) {
	samples := []proto.Message{aPush, aClaim, aHand, aRecall}
	for i, q := range samples {
		f.Add(byte(i), encoded(f, q))
	}
	linked := func(b []byte, want uint32) bool {
		links, err := decodeLinks(b, 0)
		return err == nil && len(links) > 0 && len(links) == int(want) &&
			!slices.ContainsFunc(links, func(l link.Link) bool { return l.URL.Host() == "" })
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		q := samples[int(kind)%len(samples)].ProtoReflect().New().Interface()
		if proto.Unmarshal(b, q) != nil || checkAny(q) != nil {
			return
		}
		ok := false
		switch q := q.(type) {
		case *pb.PushRequest:
			ok = linked(q.Links, q.Count) && q.Hops <= MaxHops
		case *pb.ClaimRequest:
			ok = len(q.Hosts) > 0 && len(q.Hosts) <= 4096 && !slices.ContainsFunc(q.Hosts, func(h string) bool {
				u, err := weburl.Parse("http://" + h + "/")
				return err != nil || u.Host() != h
			})
		case *pb.HandRequest:
			ok = q.Count > 0 && int(q.Count) <= len(q.Records) && len(q.Records) <= rpc.MaxData
		case *pb.RecallRequest:
			ok = linked(q.Links, q.Count) && q.Count <= 64
		}
		if !ok {
			t.Fatalf("%T %v is let through", q, q)
		}
	})
}

// FuzzAnswers: any answer is refused, or there is one for each question, and a state is of the right URL.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{claimNothing, claimComing, claimStranger}, encoded(f, anAnswer))
	f.Fuzz(func(t *testing.T, verdicts, b []byte) {
		if ClaimCall.Response(aClaim, &pb.ClaimResponse{Verdicts: verdicts}) == nil && (len(verdicts) != 3 ||
			slices.Min(verdicts) < claimNothing || slices.Max(verdicts) > claimStranger) {
			t.Errorf("verdicts %q are let through", verdicts)
		}
		r := new(pb.RecallResponse)
		if proto.Unmarshal(b, r) != nil || RecallCall.Response(aRecall, r) != nil {
			return
		}
		if len(r.Answers) != 2 {
			t.Fatalf("%d answers", len(r.Answers))
		}
		for i, a := range r.Answers {
			l, _, err := link.Decode(a.Link)
			if a.Verdict == recallKnown && (len(a.State) == 0 || len(a.State) > 64<<10 || err != nil ||
				l.URL.String() != []string{urlA, urlB}[i]) {
				t.Fatalf("answer %v is let through", a)
			}
		}
	})
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b := must.Get(proto.Marshal(m))(t)
	return b
}
