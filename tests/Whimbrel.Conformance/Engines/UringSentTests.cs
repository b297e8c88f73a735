namespace Whimbrel.Conformance;

// The io_uring engine: the suites of SentTests.cs.
public sealed class UringTcpSent() : SentSuite(Transport.UringTcp);

public sealed class UringUnixSent() : SentSuite(Transport.UringUnix);
