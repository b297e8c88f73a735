namespace Whimbrel.Conformance;

// Datagrams between network namespaces, on every real engine. The io_uring engine is in UringTwoHostTests.cs.
public sealed class EpollTwoHosts() : TwoHostSuite(Transport.EpollTcp);

#if PORTABLE
public sealed class PortableTwoHosts() : TwoHostSuite(Transport.PortableTcp);
#endif
