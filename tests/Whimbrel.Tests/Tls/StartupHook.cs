// The runtime looks for this class, in no namespace, in the assembly that DOTNET_STARTUP_HOOKS names, and calls it
// before Main: the test program can act as another program (Whimbrel.Tests.Tls.ExitUnderLoad).
#pragma warning disable CA1050 // the runtime prescribes the name
internal static class StartupHook
#pragma warning restore CA1050
{
    public static void Initialize() => Whimbrel.Tests.Tls.ExitUnderLoad.BeChild();
}
