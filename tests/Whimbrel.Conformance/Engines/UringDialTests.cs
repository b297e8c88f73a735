namespace Whimbrel.Conformance;

// The io_uring engine: the suites of DialTests.cs.
public sealed class UringTcpDials() : DialSuite(Transport.UringTcp);

public sealed class UringUnixDials() : DialSuite(Transport.UringUnix);

public sealed class UringTcpReconnects() : ReconnectSuite(Transport.UringTcp);

public sealed class UringUnixReconnects() : ReconnectSuite(Transport.UringUnix);
