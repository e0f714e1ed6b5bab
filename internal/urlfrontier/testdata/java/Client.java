// A client made of the published library of URL Frontier. It prints a line for each answer; TestPublishedClient says
// which lines it expects. Run it with the library on the class path: java -cp 'jars/*' Client.java ADDR STORY.

import crawlercommons.urlfrontier.URLFrontierGrpc;
import crawlercommons.urlfrontier.Urlfrontier;
import crawlercommons.urlfrontier.Urlfrontier.*;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.Base64;
import java.util.Iterator;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

public class Client {
    static ManagedChannel channel;
    static URLFrontierGrpc.URLFrontierBlockingStub blocking;

    public static void main(String[] args) throws Exception {
        if (args[1].equals("descriptor")) {
            System.out.println(
                    Base64.getEncoder().encodeToString(Urlfrontier.getDescriptor().toProto().toByteArray()));
            return;
        }
        channel = ManagedChannelBuilder.forTarget(args[0]).usePlaintext().build();
        blocking = URLFrontierGrpc.newBlockingStub(channel).withDeadlineAfter(60, TimeUnit.SECONDS);
        if (args[1].equals("first")) first();
        else second();
        channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
    }

    static void first() throws Exception {
        put(discovered("http://a.example/1"), discovered("http://a.example/2"), discovered("http://b.example/1"),
                discovered("http://a.example/1"), discovered("nonsense"));
        System.out.println("queues " + blocking.listQueues(Pagination.getDefaultInstance()).getValuesList());
        get("leased", GetParams.newBuilder().setMaxQueues(1).setMaxUrlsPerQueue(1).setDelayRequestable(3600));
        put(known("http://b.example/1", 0), known("http://c.example/1", 1));
        blocking.setDelay(QueueDelayParams.newBuilder().setDelayRequestable(0).build());
        blocking.setDelay(QueueDelayParams.newBuilder().setKey("c.example").setDelayRequestable(3600).build());
        get("refetched", GetParams.newBuilder().setKey("c.example").setDelayRequestable(1));
        blocking.blockQueueUntil(BlockQueueParams.newBuilder().setKey("d.example").setTime(4102444800L).build());
        blocking.setCrawlLimit(CrawlLimitParams.newBuilder().setKey("b.example").setLimit(1).build());
        put(discovered("http://d.example/1"), discovered("http://b.example/2"));
        blocking.setActive(Active.newBuilder().setState(false).build());
    }

    static void second() throws Exception {
        System.out.println("active " + blocking.getActive(Local.getDefaultInstance()).getState());
        get("inactive", GetParams.newBuilder());
        blocking.setActive(Active.newBuilder().setState(true).build());
        get("kept", GetParams.newBuilder().setDelayRequestable(3600)); // not the leased, delayed, blocked and limited
        stats("");
        stats("a.example");
        System.out.println("crawls " + blocking.listCrawls(Local.getDefaultInstance()).getValuesList());
        System.out.println("nodes " + blocking.listNodes(Empty.getDefaultInstance()).getValuesCount());
        URLItem item = blocking.getURLStatus(URLStatusRequest.newBuilder().setUrl("http://b.example/1").build());
        System.out.println("status " + item.getKnown().getInfo().getKey() + " "
                + item.getKnown().getRefetchableFromDate() + " "
                + item.getKnown().getInfo().getMetadataMap().get("depth").getValues(0));
        failure("unknown URL", () -> blocking.getURLStatus(URLStatusRequest.newBuilder().setUrl("http://x/").build()));
        Iterator<URLItem> all = blocking.listURLs(ListUrlParams.newBuilder().setSize(50).build());
        int n = 0;
        for (; all.hasNext(); n++) all.next();
        System.out.println("listed " + n);
        failure("log level", () -> blocking.setLogLevel(LogLevelParams.getDefaultInstance()));
        // Clients of later versions try calls that this server does not have, and go on without them.
        failure("PutDiscovered", () -> ClientCalls.blockingUnaryCall(channel,
                MethodDescriptor.<Empty, Empty>newBuilder().setType(MethodDescriptor.MethodType.UNARY)
                        .setFullMethodName("urlfrontier.URLFrontier/PutDiscovered")
                        .setRequestMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance()))
                        .setResponseMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance())).build(),
                CallOptions.DEFAULT, Empty.getDefaultInstance()));
        System.out.println("deleted " + blocking.deleteQueue(
                QueueWithinCrawlParams.newBuilder().setKey("a.example").build()).getValue());
        System.out.println("deleted " + blocking.deleteCrawl(DeleteCrawlMessage.getDefaultInstance()).getValue());
    }

    static URLInfo info(String url) {
        return URLInfo.newBuilder().setUrl(url)
                .putMetadata("depth", StringList.newBuilder().addValues("7").build()).build();
    }

    static URLItem discovered(String url) {
        return URLItem.newBuilder().setDiscovered(DiscoveredURLItem.newBuilder().setInfo(info(url))).build();
    }

    static URLItem known(String url, long again) {
        return URLItem.newBuilder()
                .setKnown(KnownURLItem.newBuilder().setInfo(info(url)).setRefetchableFromDate(again)).build();
    }

    // put sends URLs over one stream, as StormCrawler does, and prints the acknowledgements.
    static void put(URLItem... items) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        StringBuilder acks = new StringBuilder();
        StreamObserver<URLItem> to = URLFrontierGrpc.newStub(channel).putURLs(new StreamObserver<AckMessage>() {
            public void onNext(AckMessage ack) {
                acks.append(' ').append(ack.getID()).append('=').append(ack.getStatus());
            }

            public void onError(Throwable t) {
                acks.append(' ').append(t);
                done.countDown();
            }

            public void onCompleted() {
                done.countDown();
            }
        });
        for (int i = 0; i < items.length; i++) to.onNext(items[i].toBuilder().setID("" + i).build());
        to.onCompleted();
        if (!done.await(60, TimeUnit.SECONDS)) acks.append(" no end");
        System.out.println("put" + acks);
    }

    static void get(String what, GetParams.Builder params) {
        StringBuilder urls = new StringBuilder();
        Iterator<URLInfo> it = blocking.getURLs(params.build());
        while (it.hasNext()) {
            URLInfo info = it.next();
            urls.append(' ').append(info.getUrl()).append(':').append(info.getMetadataMap().get("depth").getValues(0));
        }
        System.out.println(what + urls);
    }

    static void stats(String key) {
        Stats s = blocking.getStats(QueueWithinCrawlParams.newBuilder().setKey(key).build());
        var counts = new TreeMap<>(s.getCountsMap());
        System.out.println("stats " + s.getSize() + " " + s.getInProcess() + " " + s.getNumberOfQueues() + " " + counts);
    }

    static void failure(String what, Runnable call) {
        try {
            call.run();
            System.out.println(what + " no failure");
        } catch (StatusRuntimeException e) {
            System.out.println(what + " " + e.getStatus().getCode());
        }
    }
}
