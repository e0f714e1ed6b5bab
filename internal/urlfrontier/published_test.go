package urlfrontier

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// jarsVariable names the folder with the published library. Without it, the folder is the one that
// tools/soak/install.sh fills.
const jarsVariable = "ORBWEAVER_URLFRONTIER"

// published runs the client of testdata/java, which is made of the published Java library.
func published(t *testing.T, addr, story string) string {
	t.Helper()
	testtier.OnlySoak(t, "Java and the library are slow to install")
	jars := os.Getenv(jarsVariable)
	if cache, err := os.UserCacheDir(); jars == "" && err == nil {
		jars = filepath.Join(cache, "orbweaver-urlfrontier")
	}
	found, _ := filepath.Glob(filepath.Join(jars, "urlfrontier-API-*.jar")) // the pattern compiles
	if len(found) == 0 {
		testneed.Missing(t, "the library of URL Frontier in "+jars+" (tools/soak/install.sh copies it)")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		testneed.Missing(t, "java")
	}
	cmd := exec.Command(java, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"),
		"testdata/java/Client.java", addr, story)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the client: %v\n%s%s", err, out, errs.String())
	}
	return string(out)
}

// TestPublishedClient: the published library, which StormCrawler uses, puts and gets URLs and makes every other call.
// Between two clients the machine loses its power: leases, delays, blocks, limits and the pause are still there.
func TestPublishedClient(t *testing.T) {
	fs := testdisk.NewMem()
	_, v, _ := served(t, fs, Config{}, nil)
	if got, want := published(t, v.Addr(), "first"), `put 0=OK 1=OK 2=OK 3=SKIPPED 4=SKIPPED
queues [a.example, b.example]
leased http://a.example/1:7
put 0=OK 1=OK
refetched http://c.example/1:7
put 0=OK 1=OK
`; got != want {
		t.Errorf("the first client got:\n%s\nwant:\n%s", got, want)
	}
	_, v, _ = served(t, fs.Crash(1), Config{}, nil)
	if got, want := published(t, v.Addr(), "second"), `active false
inactive
kept http://a.example/2:7
stats 5 2 4 {active_queues=4, completed=1}
stats 2 2 1 {active_queues=1, completed=0}
crawls [DEFAULT]
nodes 1
status b.example 0 7
unknown URL NOT_FOUND
listed 6
log level UNIMPLEMENTED
PutDiscovered UNIMPLEMENTED
deleted 2
deleted 4
`; got != want {
		t.Errorf("the second client got:\n%s\nwant:\n%s", got, want)
	}
}

// TestPublishedAPI: our urlfrontier.proto has each call, message and field of the published library, with its number
// and type.
func TestPublishedAPI(t *testing.T) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(published(t, "", "descriptor")))
	theirs := &descriptorpb.FileDescriptorProto{}
	if err == nil {
		err = proto.Unmarshal(b, theirs)
	}
	if err != nil {
		t.Fatal(err)
	}
	ours := protodesc.ToFileDescriptorProto(pb.File_urlfrontier_proto)
	if ours.GetPackage() != theirs.GetPackage() {
		t.Errorf("package %s, want %s", ours.GetPackage(), theirs.GetPackage())
	}
	calls := map[string]*descriptorpb.MethodDescriptorProto{}
	for _, m := range ours.Service[0].Method {
		calls[m.GetName()] = m
	}
	checked := 0
	for _, want := range theirs.Service[0].Method {
		checked++
		got := calls[want.GetName()]
		if got.GetInputType() != want.GetInputType() || got.GetOutputType() != want.GetOutputType() ||
			got.GetClientStreaming() != want.GetClientStreaming() ||
			got.GetServerStreaming() != want.GetServerStreaming() {
			t.Errorf("call %s: got %v, want %v", want.GetName(), got, want)
		}
	}
	if ours.Service[0].GetName() != theirs.Service[0].GetName() || checked < 16 {
		t.Errorf("service %s with %d calls", theirs.Service[0].GetName(), checked)
	}
	checkMessages(t, "", ours.MessageType, theirs.MessageType)
}

// checkMessages checks that ours have the messages and fields of theirs.
func checkMessages(t *testing.T, in string, ours, theirs []*descriptorpb.DescriptorProto) {
	t.Helper()
	byName := map[string]*descriptorpb.DescriptorProto{}
	for _, m := range ours {
		byName[m.GetName()] = m
	}
	for _, want := range theirs {
		got := byName[want.GetName()]
		if got == nil {
			t.Errorf("message %s%s is missing", in, want.GetName())
			continue
		}
		fields := map[int32]*descriptorpb.FieldDescriptorProto{}
		for _, f := range got.Field {
			fields[f.GetNumber()] = f
		}
		for _, f := range want.Field {
			g := fields[f.GetNumber()]
			if g.GetName() != f.GetName() || g.GetType() != f.GetType() || g.GetTypeName() != f.GetTypeName() ||
				g.GetLabel() != f.GetLabel() || (g.OneofIndex == nil) != (f.OneofIndex == nil) {
				t.Errorf("field %d of %s%s: got %v, want %v", f.GetNumber(), in, want.GetName(), g, f)
			}
		}
		for _, e := range want.EnumType {
			for i, value := range e.Value {
				if len(got.EnumType) == 0 || i >= len(got.EnumType[0].Value) ||
					got.EnumType[0].Value[i].GetName() != value.GetName() ||
					got.EnumType[0].Value[i].GetNumber() != value.GetNumber() {
					t.Errorf("value %s of %s%s.%s differs", value.GetName(), in, want.GetName(), e.GetName())
				}
			}
		}
		checkMessages(t, in+want.GetName()+".", got.NestedType, want.NestedType)
	}
}
