namespace Whimbrel.Conformance;

// The io_uring engine: the suite of PipeliningTests.cs.
public sealed class UringTcpPipelining() : PipeliningSuite(Transport.UringTcp);

public sealed class UringPoolPipelining() : PipeliningSuite(Transport.UringPool);

public sealed class UringTlsPipelining() : PipeliningSuite(Transport.UringTls);
