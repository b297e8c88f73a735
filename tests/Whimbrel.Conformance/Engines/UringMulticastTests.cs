namespace Whimbrel.Conformance;

// The io_uring engine: the suite of MulticastTests.cs.
public sealed class UringIpMulticast() : MulticastSuite(Transport.UringTcp);
