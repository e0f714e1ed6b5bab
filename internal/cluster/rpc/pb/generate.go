//go:build generate

package main

import (
	"bytes"
	"context"
	"log"
	"os"
	"os/exec"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

var sources = []string{"exchange.proto", "coordination.proto"}

// main compiles the sources and passes them to the two generators, as protoc would. So only Go is
// needed. The generators are built from the versions in go.mod.
func main() {
	log.SetFlags(0)
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), sources...)
	if err != nil {
		log.Fatal(err)
	}
	var protos []*descriptorpb.FileDescriptorProto
	for _, f := range files {
		protos = append(protos, protoutil.ProtoFromFileDescriptor(f))
	}
	generate("google.golang.org/protobuf/cmd/protoc-gen-go", "paths=source_relative", protos)
	generate("connectrpc.com/connect/cmd/protoc-gen-connect-go", "paths=source_relative,package_suffix=,simple", protos)
}

func generate(generator, parameter string, files []*descriptorpb.FileDescriptorProto) {
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
