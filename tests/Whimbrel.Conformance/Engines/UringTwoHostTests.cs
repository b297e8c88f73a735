namespace Whimbrel.Conformance;

// The io_uring engine: the suite of TwoHostTests.cs.
public sealed class UringTwoHosts() : TwoHostSuite(Transport.UringTcp);
