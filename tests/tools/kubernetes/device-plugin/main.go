// A device plugin without devices: it tells the kubelet of its node that there are so many, as the real one for GPUs
// does. Containers that ask for some get nothing but the accounting.
//
//	device-plugin [--resource nvidia.com/gpu] [--count 8]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// How long the kubelet may take to answer a registration.
const patience = 10 * time.Second

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
	ended   <-chan struct{}
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch tells of the devices once, and holds the stream: its end means that they are gone.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-stream.Context().Done():
	}
	return nil
}

func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return answer, nil
}

func run() error {
	resource := flag.String("resource", "nvidia.com/gpu", "name of the resource")
	count := flag.Int("count", 8, "how many there are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	p := &plugin{ended: ctx.Done()}
	for i := range *count {
		p.devices = append(p.devices, &api.Device{ID: fmt.Sprintf("gpu-%d", i), Health: api.Healthy})
	}
	// Named after the pod: the plugin that this one replaces may still be there, and its end must not take our socket.
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	name := "bed-" + host + ".sock"
	path := filepath.Join(api.DevicePluginPath, name)
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	kubelet, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = api.NewRegistrationClient(kubelet).Register(soon, &api.RegisterRequest{
		Version: api.Version, Endpoint: name, ResourceName: *resource, Options: &api.DevicePluginOptions{},
	})
	if err != nil {
		return fmt.Errorf("the kubelet doesn't take it: %w", err)
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		server.Stop()
		return nil
	}
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
