package fetch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

type rawReply struct {
	File         string
	NoStatusLine bool `json:"no_status_line"`
	bytes        []byte
}

func rawReplies(tb testing.TB) []rawReply {
	dir := dataDir(tb, "http")
	index, err := os.Open(filepath.Join(dir, "index.jsonl"))
	must.Do(tb, err)
	defer index.Close()
	var all []rawReply
	for d := json.NewDecoder(index); ; {
		var r rawReply
		if err := d.Decode(&r); err == io.EOF {
			return all
		} else if err != nil {
			tb.Fatal(err)
		}
		if r.bytes, err = os.ReadFile(filepath.Join(dir, r.File)); err != nil {
			tb.Fatal(err)
		}
		all = append(all, r)
	}
}

// oracle reads raw with net/http and returns the final response's status and body. ok is false if
// net/http refuses either.
func oracle(raw []byte) (status int, body []byte, ok bool) {
	br := bufio.NewReader(bytes.NewReader(raw))
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: "GET"})
		if err != nil {
			return 0, nil, false
		}
		if resp.StatusCode < 200 && resp.StatusCode != 101 {
			continue
		}
		body, err = io.ReadAll(resp.Body)
		return resp.StatusCode, body, err == nil
	}
}

func TestRawReplies(t *testing.T) {
	replies := rawReplies(t)
	for stay, want := range map[bool]map[string]int{
		false: {"complete": 781, "truncated-disconnect": 10, "broken": 5, "bad-response": 6, "header-too-large": 1},
		true: {"complete": 674, "truncated-time": 115, "truncated-disconnect": 2, "timeout-idle": 5, "bad-response": 6,
			"header-too-large": 1},
	} {
		t.Run("stay="+strconv.FormatBool(stay), func(t *testing.T) {
			total := map[string]int{}
			codings := map[string]bool{}
			agreed := 0
			for _, raw := range replies {
				synctest.Test(t, func(t *testing.T) {
					f, n := piped(t, Config{}, answer(raw.bytes, stay))
					r := mustFetch(t, f, Request{URL: mustURL(t, "http://raw.example/"+raw.File)})
					check(t, r)
					total[outcome(r)]++
					got := wireBytes(t, r)
					if !bytes.Contains(raw.bytes, got) {
						t.Errorf("%s: Wire holds bytes that never came", raw.File)
					}
					if len(got) == 0 && len(raw.bytes) > 0 && !bytes.HasPrefix(raw.bytes, []byte("HTTP/1.1 1")) {
						t.Errorf("%s: %d bytes came, but none is kept", raw.File, len(raw.bytes))
					}
					if bad := r.Failure != nil && r.Failure.Kind == BadResponse; raw.NoStatusLine && !bad {
						t.Errorf("%s: got %s, want bad-response", raw.File, outcome(r))
					}
					status, body, ok := oracle(raw.bytes)
					if ok && r.Failure != nil && r.Failure.Kind != HeaderTooLarge {
						t.Errorf("%s: got %v, but net/http reads status %d", raw.File, r.Failure, status)
					}
					if ok && r.Failure == nil {
						agreed++
						if status != r.Status {
							t.Errorf("%s: got status %d, want %d", raw.File, r.Status, status)
						}
						if got := payloadBytes(t, r); !bytes.Equal(got, body) {
							t.Errorf("%s: got payload %.100q, want %.100q", raw.File, got, body)
						}
					}
					if _, _, err := r.Decode(1 << 20); errors.Is(err, ErrCoding) {
						codings[raw.File] = true
					}
					if len(n.dials) != 1 {
						t.Errorf("%s: dialled %d times, want once", raw.File, len(n.dials))
					}
				})
			}
			if diff := cmp.Diff(want, total); diff != "" {
				t.Errorf("outcomes of %d replies (-want +got):\n%s", len(replies), diff)
			}
			if diff := cmp.Diff(map[string]bool{"221.http": true, "387.http": true}, codings); diff != "" {
				t.Errorf("replies with bad codings (-want +got):\n%s", diff)
			}
			if agreed < 760 {
				t.Errorf("compared %d replies with net/http, want at least 760", agreed)
			}
		})
	}
}
