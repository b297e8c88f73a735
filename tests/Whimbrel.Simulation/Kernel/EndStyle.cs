namespace Whimbrel.Simulation.Kernel;

// Behaviour of one end of a connection.
internal enum EndStyle
{
    // Shuts down sending when everything is sent; the connection ends when the other end has done so, too.
    Finish,

    // Closes when everything is sent and received.
    Close,

    // Sends, and waits for the other end to close.
    Follow,

    // Echoes, and waits for the other end to close.
    Echo,
}
