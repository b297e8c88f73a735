namespace Whimbrel.Conformance;

// The io_uring engine: the suite of SendLimitTests.cs.
public sealed class UringTcpSendLimit() : SendLimitSuite(Transport.UringTcp);
