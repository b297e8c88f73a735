namespace Whimbrel.Simulation.Kernel;

// How one end of a connection behaves.
internal enum EndStyle
{
    // Finishes sending when all is sent; the connection ends when the other has finished, too.
    Finish,

    // Closes when all is sent, and all that the other sends has come.
    Close,

    // Sends, and waits for the other to end.
    Follow,

    // Sends back what comes, and waits for the other to end.
    Echo,
}
