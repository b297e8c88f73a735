using System.Net.Sockets;

namespace Whimbrel.Tests;

/// <summary>Error numbers and .NET's names for them, both ways, by number.</summary>
public sealed class SocketErrorTests
{
    [Theory]
    [InlineData(0, SocketError.Success)]
    [InlineData(1, SocketError.AccessDenied)]
    [InlineData(2, SocketError.AddressNotAvailable)]
    [InlineData(4, SocketError.Interrupted)]
    [InlineData(6, SocketError.HostNotFound)]
    [InlineData(9, SocketError.OperationAborted)]
    [InlineData(11, SocketError.WouldBlock)]
    [InlineData(12, SocketError.NoBufferSpaceAvailable)]
    [InlineData(13, SocketError.AccessDenied)]
    [InlineData(14, SocketError.Fault)]
    [InlineData(22, SocketError.InvalidArgument)]
    [InlineData(23, SocketError.TooManyOpenSockets)]
    [InlineData(24, SocketError.TooManyOpenSockets)]
    [InlineData(28, SocketError.NoBufferSpaceAvailable)]
    [InlineData(32, SocketError.Shutdown)]
    [InlineData(61, SocketError.NoData)]
    [InlineData(88, SocketError.NotSocket)]
    [InlineData(89, SocketError.DestinationAddressRequired)]
    [InlineData(90, SocketError.MessageSize)]
    [InlineData(91, SocketError.ProtocolType)]
    [InlineData(92, SocketError.ProtocolOption)]
    [InlineData(93, SocketError.ProtocolNotSupported)]
    [InlineData(94, SocketError.SocketNotSupported)]
    [InlineData(95, SocketError.OperationNotSupported)]
    [InlineData(96, SocketError.ProtocolFamilyNotSupported)]
    [InlineData(97, SocketError.AddressFamilyNotSupported)]
    [InlineData(98, SocketError.AddressAlreadyInUse)]
    [InlineData(99, SocketError.AddressNotAvailable)]
    [InlineData(100, SocketError.NetworkDown)]
    [InlineData(101, SocketError.NetworkUnreachable)]
    [InlineData(102, SocketError.NetworkReset)]
    [InlineData(103, SocketError.ConnectionAborted)]
    [InlineData(104, SocketError.ConnectionReset)]
    [InlineData(105, SocketError.NoBufferSpaceAvailable)]
    [InlineData(106, SocketError.IsConnected)]
    [InlineData(107, SocketError.NotConnected)]
    [InlineData(108, SocketError.Disconnecting)]
    [InlineData(110, SocketError.TimedOut)]
    [InlineData(111, SocketError.ConnectionRefused)]
    [InlineData(112, SocketError.HostDown)]
    [InlineData(113, SocketError.HostUnreachable)]
    [InlineData(114, SocketError.AlreadyInProgress)]
    [InlineData(115, SocketError.InProgress)]
    [InlineData(125, SocketError.OperationAborted)]
    [InlineData(71, SocketError.SocketError)]
    [InlineData(5, SocketError.SocketError)]
    [InlineData(12345, SocketError.SocketError)]
    public void A_number_of_the_system_has_the_meaning_that_sockets_give_it(int code, SocketError expected)
    {
        NetworkError error = new(code, ErrorCategory.System, "");
        if (code != 0) Assert.Equal(expected, error.SocketError);
        // Back to a number with the same meaning.
        Assert.Equal(expected, new NetworkError(NetworkError.CodeOf(expected),
            expected == SocketError.Success ? ErrorCategory.None : ErrorCategory.System, "").SocketError);
    }

    [Theory]
    [InlineData(SocketError.ConnectionReset, 104)]
    [InlineData(SocketError.ConnectionRefused, 111)]
    [InlineData(SocketError.TimedOut, 110)]
    [InlineData(SocketError.AddressAlreadyInUse, 98)]
    [InlineData(SocketError.AddressNotAvailable, 99)]
    [InlineData(SocketError.AccessDenied, 13)]
    [InlineData(SocketError.TooManyOpenSockets, 24)]
    [InlineData(SocketError.NoBufferSpaceAvailable, 105)]
    [InlineData(SocketError.OperationAborted, 125)]
    [InlineData(SocketError.WouldBlock, 11)]
    [InlineData(SocketError.Shutdown, 32)]
    [InlineData(SocketError.TypeNotFound, 5)]
    [InlineData(SocketError.Success, 0)]
    public void Of_several_numbers_the_usual_one_stands_for_an_error_of_sockets(SocketError error, int expected) =>
        Assert.Equal(expected, NetworkError.CodeOf(error));

    [Theory]
    [InlineData(ErrorCategory.None, SocketError.Success)]
    [InlineData(ErrorCategory.UnknownHost, SocketError.HostNotFound)]
    [InlineData(ErrorCategory.Timeout, SocketError.TimedOut)]
    [InlineData(ErrorCategory.Cancelled, SocketError.OperationAborted)]
    [InlineData(ErrorCategory.Limit, SocketError.NoBufferSpaceAvailable)]
    [InlineData(ErrorCategory.User, SocketError.SocketError)]
    [InlineData(ErrorCategory.Tls, SocketError.SocketError)]
    public void Without_an_error_number_the_category_describes_the_error(ErrorCategory category,
        SocketError expected) =>
        Assert.Equal(expected, new NetworkError(0, category, "").SocketError);

    [Fact]
    public void The_reason_of_an_end_has_the_socket_error_too()
    {
        Assert.Equal(SocketError.ConnectionReset, new CloseReason(CloseCause.PeerReset, 104).Error.SocketError);
        Assert.Equal(SocketError.TimedOut, new CloseReason(CloseCause.TimedOut).Error.SocketError);
        Assert.Equal(SocketError.Success, new CloseReason(CloseCause.LocalClose).Error.SocketError);
    }
}
