using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>Maps reasons of a closed connection to the errors of the original APIs.</summary>
internal static class ErrorMap
{
    /// <summary>Error for OnError of NetCoreServer. Success: OnError is not called, as in the original for common
    /// ends.</summary>
    internal static SocketError Of(CloseReason reason)
    {
        switch (reason.Cause)
        {
            case CloseCause.None or CloseCause.LocalClose or CloseCause.LocalAbort or CloseCause.PeerClosed
                or CloseCause.ServerStopped or CloseCause.EngineStopped
                or CloseCause.Cancelled or CloseCause.HandedOver or CloseCause.UserException or CloseCause.TlsTruncated
                or CloseCause.TlsBroken
                or CloseCause.ProtocolError:
                return SocketError.Success;
            case CloseCause.SlowConsumer or CloseCause.UnreadLimit:
                return SocketError.NoBufferSpaceAvailable;
            case CloseCause.SendTimeout:
                return SocketError.TimedOut;
            case CloseCause.TlsHandshake:
                return SocketError.NotConnected;
        }

        SocketError error = reason.Error.SocketError;
        return IsTold(error) ? error : SocketError.Success;
    }

    internal static SocketError Of(Exception exception) =>
        exception is NetworkException { Error: var error } ? error.SocketError : SocketError.SocketError;

    internal static bool IsTold(SocketError error) =>
        error is not (SocketError.Success or SocketError.ConnectionAborted or SocketError.ConnectionRefused
            or SocketError.ConnectionReset or SocketError.OperationAborted or SocketError.Shutdown);

    internal static SocketException ToException(NetworkException exception) =>
        new((int)exception.Error.SocketError, exception.Error.Message);
}
