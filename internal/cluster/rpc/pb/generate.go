//go:build generate

package main

import (
	"bytes"
	"context"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// main compiles the .proto files of the working directory, and passes them to the two generators, as protoc would; with
// the argument "messages" to that of messages alone. So only Go is needed. The generators are built from the versions
// in go.mod.
func main() {
	log.SetFlags(0)
	sources, err := filepath.Glob("*.proto")
	if err != nil {
		log.Fatal(err)
	}
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), sources...)
	if err != nil {
		log.Fatal(err)
	}
	var protos []*descriptorpb.FileDescriptorProto
	added := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		if !added[f.Path()] {
			added[f.Path()] = true
			protos = append(protos, protoutil.ProtoFromFileDescriptor(f))
		}
	}
	for _, f := range files {
		add(f)
	}
	generate("google.golang.org/protobuf/cmd/protoc-gen-go", "paths=source_relative", sources, protos)
	if !slices.Contains(os.Args[1:], "messages") {
		generate("connectrpc.com/connect/cmd/protoc-gen-connect-go", "paths=source_relative,package_suffix=,simple",
			sources, protos)
	}
}

func generate(generator, parameter string, sources []string, files []*descriptorpb.FileDescriptorProto) {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: sources, Parameter: &parameter, ProtoFile: files,
	})
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.Command("go", "run", generator)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		log.Fatalf("%s: %v", generator, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		log.Fatal(err)
	}
	if response.Error != nil {
		log.Fatalf("%s: %s", generator, response.GetError())
	}
	for _, f := range response.File {
		if err := os.WriteFile(f.GetName(), []byte(f.GetContent()), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
